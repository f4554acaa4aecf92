//! The compiler's side: one request, one answer, and the end.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::thread;

use wasmparser::Validator;
use wasmtime::{Engine, OutOfMemory};

use super::componentize::component_of;
use super::confine::confine;
use super::protocol::{Answer, Artifact, Request, Why, shown};
use crate::cache::checksum;
use crate::engine;
use crate::fits::fits;
use crate::refusal::Refusal;
use crate::scan::{self, Structure};
use crate::text;

/// Validators and compilers recurse.
const STACK: usize = 16 * 1024 * 1024;

/// What the program named by [`CompilerCommand`](super::CompilerCommand) does: answers one request and ends. Call it first, before
/// threads are started or files are opened, and end with its code.
///
/// It limits its own process for good, so it is not to be called in one that does anything else.
pub fn run_compiler(request: &str) -> ExitCode {
    let answer = match serde_json::from_str::<Request>(request) {
        Ok(request) => answer(request),
        Err(error) => Answer::Failed { detail: format!("the request cannot be read: {error}"), os_error: None },
    };
    let written = serde_json::to_vec(&answer).map_err(io::Error::other).and_then(|said| {
        let mut out = io::stdout().lock();
        out.write_all(&said)?;
        out.flush()
    });
    // The host, if it is still there, sees that the answer is missing.
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn answer(request: Request) -> Answer {
    if let Err(error) = confine(request.parent, &request.limits) {
        return failed("cannot limit the compiler's process", &error);
    }
    let worker = thread::Builder::new().name("compiler".to_owned()).stack_size(STACK);
    match worker.spawn(move || compile(&request).unwrap_or_else(|end| end)) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| {
            refused(Structure::default(), Why::Panicked { detail: shown(text::of_panic(panic.as_ref())) })
        }),
        Err(error) => failed("cannot start the compiler's thread", &error),
    }
}

/// Both are answers: an `Err` is one that came before the end.
fn compile(request: &Request) -> Result<Answer, Answer> {
    let bytes = read_bytes(request.size)?;
    let structure = looked_at(&bytes)?;
    let engine = engine::for_compiling(request.metered)
        .map_err(|error| internal(format!("cannot start the compiler: {error:#}")))?;
    if engine::compatibility(&engine) != request.engine {
        let detail = "the compiler is another version than the host: restart the host";
        return Err(internal(detail.to_owned()));
    }
    let structure = validated(&engine, &bytes, structure)?;
    let (bytes, structure) = match &structure.core {
        None => (bytes, structure),
        Some(core) => match component_of(&bytes, core) {
            Ok(component) => {
                let structure = looked_at(&component)?;
                let structure = validated(&engine, &component, structure)?;
                (component, structure)
            }
            Err(why) => return Err(refused(structure, why)),
        },
    };
    let code = match engine.precompile_component(&bytes) {
        Ok(code) => code,
        Err(error) if error.is::<OutOfMemory>() => return Err(refused(structure, Why::Memory)),
        Err(error) => return Err(refused(structure, Why::Compile { detail: shown(&format!("{error:#}")) })),
    };
    let checksum = checksum(&code);
    if code.len() + size_of_val(&checksum.to_le_bytes()) > usize::try_from(request.limits.output).unwrap_or(usize::MAX)
    {
        return Err(refused(structure, Why::Output));
    }
    write(&request.output, &code, checksum).map_err(|error| failed("cannot write the compiled code", &error))?;
    Ok(Answer::Compiled { structure, artifact: Artifact { size: code.len() as u64, checksum } })
}

/// The structure of a file, or of the component that was made of one.
fn looked_at(bytes: &[u8]) -> Result<Structure, Answer> {
    let structure = scan::scan(bytes).map_err(|refusal| refused(Structure::default(), why(refusal)))?;
    if fits(&structure).is_err() { Err(refused(structure, Why::Unfit)) } else { Ok(structure) }
}

fn validated(engine: &Engine, bytes: &[u8], structure: Structure) -> Result<Structure, Answer> {
    match validate(engine, bytes) {
        Ok(()) => Ok(structure),
        Err(error) => Err(refused(structure, Why::Invalid { detail: shown(&error.to_string()) })),
    }
}

fn read_bytes(size: u64) -> Result<Vec<u8>, Answer> {
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    io::stdin()
        .lock()
        .take(size + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| failed("cannot read the plugin", &error))?;
    // Were it judged, a good file would be refused as truncated.
    if bytes.len() as u64 != size {
        return Err(internal(format!("{} bytes came and not {size}", bytes.len())));
    }
    Ok(bytes)
}

/// The code generator validates as well, but mixed with its own work: what is wrong with the file is told apart here.
fn validate(engine: &Engine, bytes: &[u8]) -> wasmparser::Result<()> {
    Validator::new_with_features(engine.get_wasm_features()).validate_all(bytes).map(drop)
}

fn write(name: &str, code: &[u8], checksum: u32) -> io::Result<()> {
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = OpenOptions::new().write(true).custom_flags(no_links).open(name)?;
    file.write_all(code)?;
    file.write_all(&checksum.to_le_bytes())
}

fn why(refusal: Refusal) -> Why {
    match refusal {
        Refusal::Truncated { .. } => Why::Truncated,
        Refusal::TooComplex { what, found, limit } => Why::TooComplex { what, found, limit },
        other => Why::Invalid { detail: shown(&other.to_string()) },
    }
}

fn refused(structure: Structure, why: Why) -> Answer {
    Answer::Refused { structure, why }
}

fn failed(what: &str, error: &io::Error) -> Answer {
    Answer::Failed { detail: shown(&format!("{what}: {error}")), os_error: error.raw_os_error() }
}

fn internal(detail: String) -> Answer {
    Answer::Failed { detail: shown(&detail), os_error: None }
}
