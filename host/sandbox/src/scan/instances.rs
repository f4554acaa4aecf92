//! How many instances of components one component makes: each costs the host memory that no limit counts, and a few
//! components that instantiate each other make very many.

use wasmparser::{
    ComponentAlias, ComponentExternalKind, ComponentInstance, ComponentOuterAliasKind, ComponentTypeRef, Payload,
};

use super::{Counted, Stop, at_most};

/// An honest component has about one for each interface that it exports. The host keeps some 40 bytes for each.
const MAX_INSTANCES: u64 = 1_000;

/// Follows the nesting of components, and knows of each what one instance of it makes.
pub(super) struct Instances {
    /// The component being read, inside those that contain it. Of a module it is empty.
    open: Vec<Open>,
}

struct Open {
    /// What an instance of each component in its index space makes; none where only its own maker knows that.
    components: Vec<Option<u64>>,
    /// What an instance of it makes, itself included, as far as it was read.
    makes: u64,
    is_component: bool,
}

impl Open {
    fn new(is_component: bool) -> Open {
        Open { components: Vec::new(), makes: 1, is_component }
    }
}

impl Default for Instances {
    fn default() -> Self {
        Instances { open: vec![Open::new(true)] }
    }
}

impl Instances {
    /// Takes the next payload.
    ///
    /// # Errors
    ///
    /// Malformed, or more instances than a guest may have.
    pub(super) fn payload(&mut self, payload: &Payload<'_>) -> Result<(), Stop> {
        match payload {
            Payload::ComponentSection { .. } => self.open.push(Open::new(true)),
            Payload::ModuleSection { .. } => self.open.push(Open::new(false)),
            Payload::End(_) => self.close(),
            Payload::ComponentImportSection(imports) => {
                for import in imports.clone() {
                    if matches!(import?.ty, ComponentTypeRef::Component(_)) {
                        self.name(None);
                    }
                }
            }
            Payload::ComponentAliasSection(aliases) => {
                for alias in aliases.clone() {
                    self.alias(&alias?);
                }
            }
            Payload::ComponentExportSection(exports) => {
                for export in exports.clone() {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Component {
                        self.name(self.known(0, export.index));
                    }
                }
            }
            Payload::ComponentInstanceSection(instances) => {
                for instance in instances.clone() {
                    if let ComponentInstance::Instantiate { component_index, .. } = instance? {
                        self.instantiate(component_index)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Open { makes, is_component: true, .. }) = self.open.pop() {
            self.name(Some(makes));
        }
    }

    fn alias(&mut self, alias: &ComponentAlias<'_>) {
        match alias {
            ComponentAlias::InstanceExport { kind: ComponentExternalKind::Component, .. } => self.name(None),
            ComponentAlias::Outer { kind: ComponentOuterAliasKind::Component, count, index } => {
                self.name(self.known(*count, *index));
            }
            _ => {}
        }
    }

    /// What comes next in the index space of components.
    fn name(&mut self, makes: Option<u64>) {
        if let Some(open) = self.open.last_mut() {
            open.components.push(makes);
        }
    }

    /// So many components further out.
    fn known(&self, out: u32, index: u32) -> Option<u64> {
        let at = self.open.len().checked_sub(1 + out as usize)?;
        *self.open[at].components.get(index as usize)?
    }

    /// One that is passed in from elsewhere may be any: it counts for all that there may be.
    fn instantiate(&mut self, component: u32) -> Result<(), Stop> {
        let more = self.known(0, component).unwrap_or(MAX_INSTANCES);
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        open.makes = open.makes.saturating_add(more);
        at_most(Counted::ComponentInstances, open.makes, MAX_INSTANCES)
    }
}

#[cfg(test)]
mod tests {
    use crate::refusal::{Counted, Refusal};
    use crate::scan::scan;

    fn refused(text: &str) -> Option<Counted> {
        match scan(&wat::parse_str(text).expect("the text is a component")) {
            Ok(_) => None,
            Err(Refusal::TooComplex { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        }
    }

    fn of_ones(count: usize) -> String {
        format!("(component (component $one) {})", "(instance (instantiate $one))".repeat(count))
    }

    #[test]
    fn instances_of_components_are_counted() {
        assert_eq!(refused(&of_ones(999)), None);
        assert_eq!(refused(&of_ones(1_000)), Some(Counted::ComponentInstances));
    }

    #[test]
    fn a_few_components_that_instantiate_each_other_are_many_instances() {
        let ten = |of: &str| format!("(instance (instantiate {of}))").repeat(10);
        let nested = |more: &str| {
            format!(
                "(component (component $a) (component $b (alias outer 1 $a (component $x)) {}) {})",
                ten("$x"),
                more
            )
        };
        assert_eq!(refused(&nested(&ten("$b"))), None, "a hundred and ten");
        let exported = format!("(export $c \"c\" (component $b)) {}", ten("$c").repeat(10));
        assert_eq!(refused(&nested(&exported)), Some(Counted::ComponentInstances), "eleven hundred");
    }

    #[test]
    fn a_component_from_elsewhere_may_be_any() {
        let imported = "(component (component $a (import \"c\" (component $c)) (instance (instantiate $c))))";
        assert_eq!(refused(imported), Some(Counted::ComponentInstances));
    }
}
