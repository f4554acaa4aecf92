//! What a core module says of itself: which of the ways to become a component is open to it, and who made it.

use serde::{Deserialize, Serialize};
use wasmparser::{
    BinaryReader, BinaryReaderError, ExternalKind, Import, ImportSectionReader, KnownCustom, Payload,
    ProducersSectionReader,
};

use crate::inspect::LISTED_NAMES;
use crate::toolchain::{Marks, Toolchain};

/// The module that WASI 0.1 functions are imported from.
pub(crate) const PREVIEW1: &str = "wasi_snapshot_preview1";
/// What the names of custom sections begin with that hold the type of the component to be.
pub(crate) const EMBEDDED_TYPE: &str = "component-type";
/// What is read of a producers section.
const MOST_PRODUCERS: usize = 100;

/// What decides what becomes of a core module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoreFacts {
    /// A custom section that makes it ready to become a component.
    pub(crate) embedded_type: bool,
    /// It exports `_start`, as a WASI command does.
    pub(crate) start: bool,
    /// It imports functions of WASI 0.1.
    pub(crate) preview1: bool,
    /// What else it imports, "module.name", the first few.
    pub(crate) foreign: Vec<String>,
    pub(crate) toolchain: Option<Toolchain>,
}

/// Gathers them.
#[derive(Default)]
pub(super) struct CoreScan {
    facts: CoreFacts,
    marks: Marks,
}

impl CoreScan {
    /// Takes the next payload of the outermost module.
    pub(super) fn payload(&mut self, payload: &Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::ImportSection(imports) => self.imports(imports)?,
            Payload::ExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    self.facts.start |= export.name == "_start" && export.kind == ExternalKind::Func;
                    self.marks.export(export.name);
                }
            }
            Payload::CustomSection(section) => {
                self.facts.embedded_type |= section.name().starts_with(EMBEDDED_TYPE);
                // Not the parser's own reading of it, which may end in an error: what anybody may write there decides nothing.
                if section.name() == "producers" && !matches!(section.as_known(), KnownCustom::Unknown) {
                    self.producers(BinaryReader::new(section.data(), section.data_offset()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn facts(self) -> CoreFacts {
        // Where the type is there, that it is missing is not what is wrong.
        let of_the_type = |toolchain: &Toolchain| matches!(toolchain, Toolchain::WitBindgen | Toolchain::Go);
        let explains = |toolchain: &Toolchain| !(self.facts.embedded_type && of_the_type(toolchain));
        CoreFacts { toolchain: self.marks.toolchain().filter(explains), ..self.facts }
    }

    fn imports(&mut self, imports: &ImportSectionReader<'_>) -> Result<(), BinaryReaderError> {
        for import in imports.clone().into_imports() {
            let Import { module, name, .. } = import?;
            self.marks.import(module, name);
            if module == PREVIEW1 {
                self.facts.preview1 = true;
            } else if self.facts.foreign.len() < LISTED_NAMES {
                self.facts.foreign.push(super::shown(&format!("{module}.{name}")));
            }
        }
        Ok(())
    }

    /// What cannot be read of it is passed over.
    fn producers(&mut self, section: BinaryReader<'_>) {
        let Ok(fields) = ProducersSectionReader::new(section) else { return };
        for field in fields.into_iter().flatten().take(MOST_PRODUCERS) {
            for value in field.values.into_iter().flatten().take(MOST_PRODUCERS) {
                self.marks.producer(field.name, value.name);
            }
        }
    }
}
