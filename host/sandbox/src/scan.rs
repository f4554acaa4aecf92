//! One pass over a file's structure, in time linear in its size, before anything expensive looks at it.
//!
//! Compilers can be made to use minutes and gigabytes by small files, so what is compiled is bounded in every dimension that
//! was seen to do so. The largest honest guest known has 14 modules, 13 354 functions, a body of 427 KB and 271 locals.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use wasmparser::{
    BinaryReader, BinaryReaderError, ElementItems, ElementKind, ElementSectionReader, Encoding, FunctionBody, Parser,
    Payload,
};

use crate::refusal::{Counted, Refusal};
use crate::text;

mod core;
mod instances;
mod nesting;

use core::CoreScan;
pub(crate) use core::{CoreFacts, EMBEDDED_TYPE, PREVIEW1};
use instances::Instances;

const MAX_CORE_MODULES: u64 = 32;
const MAX_COMPONENTS: u64 = 64;
const MAX_FUNCTIONS: u64 = 50_000;
/// Each instance of a module has a place for each of its globals, which no limit of memory counts.
const MAX_GLOBALS: u64 = 10_000;
/// Each instance of a module has a place for each of its imports. (The pool bounds these and globals anew, all instances of
/// a guest together; where there is no pool, nothing else does.)
const MAX_CORE_IMPORTS: u64 = 10_000;
/// Items of passive element segments: each instance of a module keeps 16 bytes for each of them, which no limit of memory
/// counts. In all 64 instances that a guest may have this is a MiB, as much as the engine gives to everything else that
/// instances hold outside of memories and tables. Compilers make none: the items of active segments go into the table.
const MAX_PASSIVE_ELEMENTS: u64 = 1_000;
/// Bytes of all sections of types. The engine keeps some sixty bytes for each of them as long as the plugin is loaded, which
/// no limit of memory counts. The largest honest guest known has 18 KB.
const MAX_TYPE_BYTES: u64 = 64 * 1024;
const MAX_BODY: u64 = 1024 * 1024;
const MAX_LOCALS: u64 = 2_000;
/// Imports and exports of the component itself.
const MAX_NAMES: usize = 1_000;
const MAX_NAME: usize = 256;

/// What the pass found at the top level.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Structure {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    /// Of a core module only.
    pub(crate) core: Option<CoreFacts>,
}

impl Structure {
    /// Of names that come from elsewhere than this pass.
    pub(crate) fn named<'a>(
        imports: impl Iterator<Item = &'a str>,
        exports: impl Iterator<Item = &'a str>,
    ) -> Structure {
        let names = |names: &mut dyn Iterator<Item = &'a str>| names.take(MAX_NAMES).map(shown).collect();
        Structure { imports: names(&mut { imports }), exports: names(&mut { exports }), core: None }
    }

    /// Bounds and escapes every name again.
    pub(crate) fn bound(&mut self) {
        let foreign = self.core.as_mut().map(|core| &mut core.foreign);
        for names in [&mut self.imports, &mut self.exports].into_iter().chain(foreign) {
            names.truncate(MAX_NAMES);
            names.iter_mut().for_each(|name| *name = shown(name));
        }
    }
}

fn shown(name: &str) -> String {
    text::bound(&text::escape(name), MAX_NAME)
}

/// Reads the structure of a module or component and refuses what is malformed or beyond the bounds.
pub(crate) fn scan(bytes: &[u8]) -> Result<Structure, Refusal> {
    let mut scan = Scan { bytes, ..Scan::default() };
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| malformed(&error, bytes.len()))?;
        scan.payload(&payload).map_err(|stop| match stop {
            Stop::Malformed(error) => malformed(&error, bytes.len()),
            Stop::Refused(refusal) => refusal,
        })?;
    }
    Ok(Structure { core: scan.core.map(CoreScan::facts), ..scan.structure })
}

#[derive(Default)]
struct Scan<'a> {
    bytes: &'a [u8],
    structure: Structure,
    /// Of the file itself, where it is a core module.
    core: Option<CoreScan>,
    depth: usize,
    core_modules: u64,
    components: u64,
    functions: u64,
    globals: u64,
    core_imports: u64,
    passive_elements: u64,
    type_bytes: u64,
    instances: Instances,
}

enum Stop {
    Malformed(BinaryReaderError),
    Refused(Refusal),
}

impl From<BinaryReaderError> for Stop {
    fn from(error: BinaryReaderError) -> Self {
        Stop::Malformed(error)
    }
}

impl Scan<'_> {
    fn payload(&mut self, payload: &Payload<'_>) -> Result<(), Stop> {
        self.instances.payload(payload)?;
        if let Some(core) = &mut self.core {
            core.payload(payload)?;
        }
        match payload {
            Payload::Version { encoding: Encoding::Module, .. } if self.depth == 0 => {
                self.core = Some(CoreScan::default());
            }
            Payload::ModuleSection { .. } => {
                self.depth += 1;
                self.core_modules += 1;
                at_most(Counted::CoreModules, self.core_modules, MAX_CORE_MODULES)?;
            }
            Payload::ComponentSection { .. } => {
                self.depth += 1;
                self.components += 1;
                at_most(Counted::Components, self.components, MAX_COMPONENTS)?;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::TypeSection(types) => self.types(types.range())?,
            Payload::CoreTypeSection(types) => self.types(types.range())?,
            Payload::ComponentTypeSection(types) => {
                self.types(types.range())?;
                nesting::is_bounded(BinaryReader::new(&self.bytes[types.range()], types.range().start))?;
            }
            Payload::FunctionSection(functions) => {
                self.functions += u64::from(functions.count());
                at_most(Counted::Functions, self.functions, MAX_FUNCTIONS)?;
            }
            Payload::GlobalSection(globals) => {
                self.globals += u64::from(globals.count());
                at_most(Counted::Globals, self.globals, MAX_GLOBALS)?;
            }
            Payload::ImportSection(imports) => {
                self.core_imports += u64::from(imports.count());
                at_most(Counted::CoreImports, self.core_imports, MAX_CORE_IMPORTS)?;
            }
            Payload::ElementSection(segments) => {
                self.passive_elements += passive_items(segments)?;
                at_most(Counted::PassiveElements, self.passive_elements, MAX_PASSIVE_ELEMENTS)?;
            }
            Payload::CodeSectionEntry(body) => body_is_bounded(body)?,
            Payload::ComponentImportSection(imports) if self.depth == 0 => {
                for import in imports.clone() {
                    keep(&mut self.structure.imports, import?.name.name, Counted::Imports)?;
                }
            }
            Payload::ComponentExportSection(exports) if self.depth == 0 => {
                for export in exports.clone() {
                    keep(&mut self.structure.exports, export?.name.name, Counted::Exports)?;
                }
            }
            Payload::ExportSection(exports) if self.depth == 0 => {
                for export in exports.clone() {
                    keep(&mut self.structure.exports, export?.name, Counted::Exports)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn types(&mut self, section: Range<usize>) -> Result<(), Stop> {
        self.type_bytes += section.len() as u64;
        at_most(Counted::TypeBytes, self.type_bytes, MAX_TYPE_BYTES)
    }
}

fn passive_items(segments: &ElementSectionReader<'_>) -> Result<u64, BinaryReaderError> {
    let mut items = 0;
    for segment in segments.clone() {
        let segment = segment?;
        if matches!(segment.kind, ElementKind::Passive) {
            items += u64::from(match segment.items {
                ElementItems::Functions(items) => items.count(),
                ElementItems::Expressions(_, items) => items.count(),
            });
        }
    }
    Ok(items)
}

fn body_is_bounded(body: &FunctionBody<'_>) -> Result<(), Stop> {
    let range = body.range();
    at_most(Counted::BodyBytes, (range.end - range.start) as u64, MAX_BODY)?;
    let mut locals: u64 = 0;
    for group in body.get_locals_reader()? {
        locals += u64::from(group?.0);
        at_most(Counted::Locals, locals, MAX_LOCALS)?;
    }
    Ok(())
}

fn keep(names: &mut Vec<String>, name: &str, what: Counted) -> Result<(), Stop> {
    at_most(what, names.len() as u64 + 1, MAX_NAMES as u64)?;
    names.push(shown(name));
    Ok(())
}

fn at_most(what: Counted, found: u64, limit: u64) -> Result<(), Stop> {
    if found > limit {
        return Err(Stop::Refused(Refusal::TooComplex { what, found, limit }));
    }
    Ok(())
}

fn malformed(error: &BinaryReaderError, size: usize) -> Refusal {
    // The reader's own word for an end that came too early; a length that points beyond the file has the same cause.
    let message = error.message();
    if message.contains("unexpected end") {
        return Refusal::Truncated { size };
    }
    Refusal::Invalid { detail: text::bound(&text::escape(&error.to_string()), 1024) }
}
