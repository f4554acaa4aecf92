//! The component type that is embedded in a core module, looked at before wit-component follows it.
//!
//! WIT's own tools write no types that use each other in a circle, and the readers of wit-component, which go from each
//! package to those it uses, go round in one until the stack is full. But the binary format has room for circles of packages:
//! `a:p/x` may have a type that `b:q/y` uses, and `b:q/y` one that `a:p/z` uses. So this draws the same map, of all types that
//! come together, and refuses what has a circle.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wasmparser::component_types::{ComponentAnyTypeId, ComponentEntityType, ComponentItem, ComponentType};
use wasmparser::names::{ComponentName, ComponentNameKind};
use wasmparser::types::Types;
use wasmparser::{Parser, Payload, Validator, WasmFeatures};

use super::protocol::{Why, shown};
use crate::refusal::{Counted, Refusal};
use crate::scan::{self, EMBEDDED_TYPE};

/// Bytes of all such sections together. The largest honest ones known, of a whole WASI world, have some 20 KB.
const MAX_BYTES: u64 = 256 * 1024;

/// Looks at the types in core modules that are to become one component. The modules must have been validated, but for these.
///
/// # Errors
///
/// What is too large, too deep or broken, or goes in a circle.
pub(super) fn look_at(modules: &[&[u8]]) -> Result<(), Why> {
    let (mut map, mut bytes) = (Map::default(), 0);
    for module in modules {
        for payload in Parser::new(0).parse_all(module) {
            if let Payload::CustomSection(section) = payload.map_err(broken)?
                && section.name().starts_with(EMBEDDED_TYPE)
            {
                bytes += section.data().len() as u64;
                if bytes > MAX_BYTES {
                    let what = Counted::EmbeddedTypeBytes;
                    return Err(Why::TooComplex { what, found: bytes, limit: MAX_BYTES });
                }
                scan::scan(section.data()).map_err(|refusal| match refusal {
                    Refusal::TooComplex { what, found, limit } => Why::TooComplex { what, found, limit },
                    other => broken(other),
                })?;
                map.draw(section.data())?;
            }
        }
    }
    map.has_no_circle()
}

fn broken(why: impl std::fmt::Display) -> Why {
    Why::Componentize { detail: shown(&format!("the component type that is embedded in it cannot be read: {why}")) }
}

/// Who uses whose types.
#[derive(Default)]
struct Map {
    packages: BTreeMap<String, BTreeSet<String>>,
    interfaces: BTreeMap<String, BTreeSet<String>>,
}

/// An interface, or the world, by name. Versions that are compatible count as one, because the encoder makes one of them.
#[derive(Debug, Clone)]
struct Interface {
    name: String,
    package: String,
    /// The package with its whole version.
    exact: String,
}

impl Map {
    /// Adds what the world in an embedded type says. What is no such type is refused by the encoder before it follows anything.
    fn draw(&mut self, embedded: &[u8]) -> Result<(), Why> {
        let types = Validator::new_with_features(WasmFeatures::all()).validate_all(embedded).map_err(broken)?;
        let Some(exported) = exported(embedded)? else { return Ok(()) };
        let ComponentAnyTypeId::Component(package) = types.as_ref().component_any_type_at(exported) else {
            return Ok(());
        };
        let Some((name, item)) = types[package].exports.iter().next() else { return Ok(()) };
        let ComponentEntityType::Component(id) = item.ty else { return Ok(()) };
        let Some(world) = Interface::named(name, item) else { return Ok(()) };
        self.draw_world(&types, &world, &types[id])
    }

    fn draw_world(&mut self, types: &Types, world: &Interface, ty: &ComponentType) -> Result<(), Why> {
        // Of which interface each type is that has a name. A type is used only behind its own definition.
        let mut made = HashMap::<ComponentAnyTypeId, Interface>::new();
        for (name, item) in ty.imports.iter().chain(ty.exports.iter()) {
            match item.ty {
                ComponentEntityType::Instance(instance) => {
                    let name = item.implements.as_ref().unwrap_or(name);
                    let user = Interface::named(name, item).unwrap_or_else(|| world.with(name));
                    self.world_has(world, &user);
                    for export in types[instance].exports.values() {
                        let ComponentEntityType::Type { referenced, created } = export.ty else { continue };
                        if let Some(used) = origin(types, &made, referenced) {
                            self.uses(&user, used)?;
                        }
                        made.insert(created, user.clone());
                    }
                }
                ComponentEntityType::Type { referenced, .. } => {
                    if let Some(used) = origin(types, &made, referenced) {
                        self.world_has(world, used);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn world_has(&mut self, world: &Interface, interface: &Interface) {
        if world.package != interface.package {
            self.packages.entry(world.package.clone()).or_default().insert(interface.package.clone());
        }
    }

    fn uses(&mut self, user: &Interface, used: &Interface) -> Result<(), Why> {
        if user.exact != used.exact && user.package == used.package {
            return Err(circle([user.exact.as_str(), used.exact.as_str()].into_iter()));
        }
        if user.package != used.package {
            self.packages.entry(user.package.clone()).or_default().insert(used.package.clone());
        }
        if user.name != used.name {
            self.interfaces.entry(user.name.clone()).or_default().insert(used.name.clone());
        }
        Ok(())
    }

    fn has_no_circle(&self) -> Result<(), Why> {
        for uses in [&self.packages, &self.interfaces] {
            let mut open: BTreeSet<&String> = uses.keys().collect();
            // Who uses nobody that is open, or is used by nobody, is in no circle.
            loop {
                let used: BTreeSet<&String> = open.iter().flat_map(|user| &uses[*user]).collect();
                let is_open =
                    |user: &&String| used.contains(user) && uses[*user].iter().any(|used| open.contains(used));
                let still: BTreeSet<&String> = open.iter().copied().filter(is_open).collect();
                if still.is_empty() {
                    break;
                }
                if still.len() == open.len() {
                    return Err(circle(still.into_iter().map(String::as_str)));
                }
                open = still;
            }
        }
        Ok(())
    }
}

/// The index of the one type that an embedded type exports. None where it is something else.
fn exported(embedded: &[u8]) -> Result<Option<u32>, Why> {
    let mut exports = Vec::new();
    for payload in Parser::new(0).parse_all(embedded) {
        match payload.map_err(broken)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                return Err(broken("it has code in it"));
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    exports.push(export.map_err(broken)?.index);
                }
            }
            _ => {}
        }
    }
    Ok(if let [only] = exports[..] { Some(only) } else { None })
}

/// The interface that a type is of which this is another name for. None where it is new.
fn origin<'a>(
    types: &Types,
    made: &'a HashMap<ComponentAnyTypeId, Interface>,
    mut id: ComponentAnyTypeId,
) -> Option<&'a Interface> {
    loop {
        if let Some(interface) = made.get(&id) {
            return Some(interface);
        }
        id = types.as_ref().peel_alias(id)?;
    }
}

fn circle<'a>(names: impl Iterator<Item = &'a str>) -> Why {
    const SHOWN: usize = 4;
    let names = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    let detail =
        format!("in the component type that is embedded in it, these use each other's types in a circle: {names}");
    Why::Componentize { detail: shown(&detail) }
}

impl Interface {
    /// None where the name is not one of a package's.
    fn named(name: &str, item: &ComponentItem) -> Option<Interface> {
        let name = ComponentName::new(name, 0).ok()?;
        let ComponentNameKind::Interface(name) = name.kind() else { return None };
        let package = format!("{}:{}", name.namespace(), name.package());
        // One that cannot be read is refused by the encoder before it follows anything.
        let version = name.version(item.version_suffix.as_deref()).ok().flatten();
        let track = match &version {
            None => package.clone(),
            Some(version) if !version.pre.is_empty() => format!("{package}@{version}"),
            Some(version) if version.major > 0 => format!("{package}@{}", version.major),
            Some(version) if version.minor > 0 => format!("{package}@0.{}", version.minor),
            Some(version) => format!("{package}@0.0.{}", version.patch),
        };
        let exact = version.map_or(package.clone(), |version| format!("{package}@{version}"));
        Some(Interface { name: format!("{track}/{}", name.interface()), package: track, exact })
    }

    /// One that stands in this world itself.
    fn with(&self, label: &str) -> Interface {
        Interface { name: format!("{} {label}", self.name), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A core module in which a world with these items is embedded.
    fn module(world: &str, items: &str) -> Vec<u8> {
        let text = format!(
            r#"(component
              (type (component (type (component {items})) (export "{world}" (component (type 0)))))
              (export "w" (type 0)))"#
        );
        let embedded = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        with_section(&embedded)
    }

    fn with_section(embedded: &[u8]) -> Vec<u8> {
        let content: String = embedded.iter().map(|byte| format!("\\{byte:02x}")).collect();
        wat::parse_str(format!(r#"(module (@custom "component-type:w" "{content}"))"#)).expect("the text is a module")
    }

    /// An interface of this name that has the type `t`, as the first item of a world.
    fn first(name: &str) -> String {
        format!(
            r#"(type $first (instance (type $r (record (field "f" u32))) (export "t" (type (eq $r)))))
               (import "{name}" (instance $i0 (type $first)))
               (alias export $i0 "t" (type $t0))"#
        )
    }

    /// The n-th interface, which uses the type of the one before it.
    fn next(n: usize, name: &str) -> String {
        let before = n - 1;
        format!(
            r#"(type $ty{n} (instance (alias outer 1 $t{before} (type $u)) (export "t" (type (eq $u)))))
               (import "{name}" (instance $i{n} (type $ty{n})))
               (alias export $i{n} "t" (type $t{n}))"#
        )
    }

    fn chain(names: &[&str]) -> String {
        let rest = names.iter().enumerate().skip(1).map(|(n, name)| next(n, name));
        first(names[0]) + &rest.collect::<String>()
    }

    fn circle_of(modules: &[Vec<u8>]) -> Option<String> {
        match look_at(&modules.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
            Ok(()) => None,
            Err(Why::Componentize { detail }) => Some(detail),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn interfaces_that_use_those_before_them_are_fine() {
        for names in [
            &["a:p/x", "a:p/y", "b:q/z"][..],
            &["a:p/x@0.1.0", "b:q/y", "a:p/x@0.2.0"],
            &["a:p/x@1.2.0", "a:p/y@1.2.0", "a:p/z@2.0.0"],
        ] {
            assert_eq!(circle_of(&[module("w:w/w", &chain(names))]), None, "{names:?}");
        }
        assert_eq!(circle_of(&[module("a:p/w", &chain(&["b:q/x", "a:p/y"]))]), None, "the world is of a package, too");
    }

    #[test]
    fn packages_that_use_each_other_are_a_circle() {
        for names in [
            &["a:p/x", "b:q/y", "a:p/z"][..],
            &["a:p/x", "b:q/y", "c:r/y", "a:p/z"],
            &["a:p/x@1.2.0", "b:q/y", "a:p/z@1.3.0"],
            &["a:p/x@1.2.0", "a:p/y@1.3.0"],
        ] {
            let told = circle_of(&[module("w:w/w", &chain(names))]).unwrap_or_else(|| panic!("{names:?}"));
            assert!(told.contains("a:p"), "{told}");
        }
    }

    #[test]
    fn a_world_whose_package_is_used_by_what_it_has_is_a_circle() {
        assert!(circle_of(&[module("b:q/w", &chain(&["b:q/x", "a:p/y"]))]).is_some());
    }

    #[test]
    fn what_is_exported_may_close_a_circle_of_interfaces() {
        let exported = r#"(type $again (instance (alias outer 1 $t1 (type $u)) (export "t" (type (eq $u)))))
            (export "a:p/x" (instance (type $again)))"#;
        let items = chain(&["a:p/x", "a:p/y"]) + exported;
        let told = circle_of(&[module("w:w/w", &items)]).expect("x uses y, which uses x");
        assert!(told.contains("a:p/x, a:p/y"), "{told}");
    }

    #[test]
    fn a_circle_may_lie_across_modules() {
        let one = module("w:w/w", &chain(&["a:p/x", "b:q/y"]));
        let other = module("w:w/v", &chain(&["b:q/y", "a:p/z"]));
        assert_eq!(circle_of(std::slice::from_ref(&one)), None);
        assert_eq!(circle_of(std::slice::from_ref(&other)), None);
        assert!(circle_of(&[one, other]).is_some());
    }

    #[test]
    fn what_is_no_embedded_type_or_too_much_of_one_is_refused() {
        for other in [&b"\x03\x00"[..], b"", b"\0asm\x0d\0\x01\0\xff"] {
            assert!(matches!(look_at(&[&with_section(other)]), Err(Why::Componentize { .. })), "{other:?}");
        }
        let code = wat::parse_str("(component (core module))").expect("the text is a component");
        assert!(matches!(look_at(&[&with_section(&code)]), Err(Why::Componentize { .. })));
        let much = wat::parse_str(format!("(component (@custom \"x\" \"{}\"))", "y".repeat(MAX_BYTES as usize)));
        let refused = look_at(&[&with_section(&much.expect("the text is a component"))]);
        assert!(matches!(refused, Err(Why::TooComplex { what: Counted::EmbeddedTypeBytes, .. })), "{refused:?}");
    }
}
