//! How deep types of components lie in each other. Whoever reads them calls itself for each level, which would cost the
//! stack; this reads without.

use wasmparser::{BinaryReader, ComponentType, ComponentTypeDeclaration};

use super::{Counted, Stop, at_most};

/// An honest one has four: a world in its package, an interface in the world, a type in the interface.
const MAX_NESTING: u64 = 16;

/// What a type of a component, or of an instance of one, begins with; declarations follow.
const OF_DECLARATIONS: [u8; 2] = [0x41, 0x42];
/// What a declaration of a type begins with.
const DECLARES_TYPE: u8 = 0x01;

/// Bounds the nesting of the types in a section of such.
pub(super) fn is_bounded(mut section: BinaryReader<'_>) -> Result<(), Stop> {
    // How many items are left of the section, and of each type around the next item.
    let mut left = vec![section.read_var_u32()?];
    while let Some(items) = left.last_mut() {
        let Some(others) = items.checked_sub(1) else {
            left.pop();
            continue;
        };
        *items = others;
        // In a section stand types, in a type declarations.
        let is_declaration = left.len() > 1;
        let mut ahead = section.clone();
        if is_declaration && ahead.read_u8()? != DECLARES_TYPE {
            section.read::<ComponentTypeDeclaration>()?;
        } else if OF_DECLARATIONS.contains(&ahead.read_u8()?) {
            left.push(ahead.read_var_u32()?);
            at_most(Counted::TypeNesting, left.len() as u64 - 1, MAX_NESTING)?;
            section = ahead;
        } else if is_declaration {
            section.read::<ComponentTypeDeclaration>()?;
        } else {
            section.read::<ComponentType>()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::refusal::{Counted, Refusal};
    use crate::scan::scan;

    /// A type in this many others, each of which has other declarations beside it.
    fn nested(levels: usize) -> Vec<u8> {
        let level =
            |n: usize| format!("(type (func)) (type ({} ", if n.is_multiple_of(2) { "component" } else { "instance" });
        let text: String = (0..levels).map(level).collect();
        let beside = r#" (type (func)) (export "f" (func (type 0))) "#;
        let ends: String = (1..levels).map(|_| format!(")) {beside}")).collect();
        wat::parse_str(format!("(component {text}{beside}{ends}))(type string))")).expect("the text is a component")
    }

    #[test]
    fn types_lie_in_each_other_so_deep_and_no_deeper() {
        scan(&nested(16)).expect("it is not too deep");
        let refused = scan(&nested(17)).expect_err("it is too deep");
        assert_eq!(refused, Refusal::TooComplex { what: Counted::TypeNesting, found: 17, limit: 16 });
    }

    #[test]
    fn as_many_levels_as_a_file_has_room_for_cost_no_stack() {
        const LEVELS: usize = 20_000;
        // One type of a component that declares one type of a component, and so on, around one without declarations.
        let mut section = vec![1, 0x41];
        section.extend([1, 0x01, 0x41].repeat(LEVELS));
        section.push(0);
        let mut bytes = b"\0asm\x0d\0\x01\0\x07".to_vec();
        let size = section.len();
        bytes.extend([size as u8 | 0x80, (size >> 7) as u8 | 0x80, (size >> 14) as u8]);
        bytes.extend(section);
        let refused = scan(&bytes).expect_err("it is too deep");
        assert!(matches!(refused, Refusal::TooComplex { what: Counted::TypeNesting, .. }), "{refused}");
    }
}
