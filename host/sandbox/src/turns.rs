//! Turns at something of which there is little, fair between tenants: who has had a turn least recently is next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Hands out turns, a fixed number at a time, and of these at most this many to one tenant.
///
/// Whoever waits is served round robin by tenant, and within a tenant in order. A tenant with five hundred files to compile
/// so keeps another waiting for the turns that have begun, and no more. It grows with what waits: its caller bounds that.
pub(crate) struct Turns(Arc<Mutex<Queue>>);

/// A turn, until it is dropped.
pub(crate) struct Turn {
    queue: Arc<Mutex<Queue>>,
    tenant: String,
}

struct Queue {
    free: usize,
    /// What one tenant may have.
    of_tenant: usize,
    /// Only for tenants that have no turn.
    kept: usize,
    /// How many turns have begun: their order.
    begun: u64,
    /// Who waits or has a turn. A tenant that does neither is forgotten.
    tenants: Vec<Tenant>,
}

struct Tenant {
    name: String,
    /// Turns it has now.
    busy: usize,
    /// When its last turn began; 0 before its first.
    last: u64,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

impl Turns {
    pub(crate) fn new(at_a_time: usize, of_tenant: usize) -> Turns {
        Turns(Arc::new(Mutex::new(Queue { free: at_a_time, of_tenant, kept: 0, begun: 0, tenants: Vec::new() })))
    }

    /// The same, and the last this many turns go only to tenants that have none.
    pub(crate) fn keeping(self, kept: usize) -> Turns {
        lock(&self.0).kept = kept;
        self
    }

    /// Waits for a turn. Dropping the future gives the place in the queue up.
    pub(crate) async fn take(&self, tenant: &str) -> Turn {
        let waiting = {
            let mut queue = lock(&self.0);
            let busy = queue.tenant(tenant).busy;
            if queue.may_begin(busy) {
                queue.free -= 1;
                queue.begin(tenant);
                return Turn { queue: Arc::clone(&self.0), tenant: tenant.to_owned() };
            }
            let (turn, waiting) = oneshot::channel();
            let tenant = queue.tenant(tenant);
            // Who comes and gives up again and again must not make it grow while no turn ends.
            tenant.waiting.retain(|waiting| !waiting.is_closed());
            tenant.waiting.push_back(turn);
            waiting
        };
        waiting.await.unwrap_or_else(|_| unreachable!("whoever waits stays in the queue until it is served"))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.queue).ended(&self.tenant);
        loop {
            let Some((tenant, waiting)) = lock(&self.queue).next() else { return };
            // One that has just given up drops its turn here, which passes it on.
            let _ = waiting.send(Turn { queue: Arc::clone(&self.queue), tenant });
        }
    }
}

impl Queue {
    fn tenant(&mut self, name: &str) -> &mut Tenant {
        let known = self.tenants.iter().position(|tenant| tenant.name == name);
        let at = known.unwrap_or_else(|| {
            self.tenants.push(Tenant { name: name.to_owned(), busy: 0, last: 0, waiting: VecDeque::new() });
            self.tenants.len() - 1
        });
        &mut self.tenants[at]
    }

    /// Whether a tenant that has this many turns may have another.
    fn may_begin(&self, busy: usize) -> bool {
        let kept = if busy == 0 { 0 } else { self.kept };
        self.free > kept && busy < self.of_tenant
    }

    fn begin(&mut self, name: &str) {
        self.begun += 1;
        let begun = self.begun;
        let tenant = self.tenant(name);
        tenant.busy += 1;
        tenant.last = begun;
    }

    fn ended(&mut self, name: &str) {
        self.free += 1;
        self.tenant(name).busy -= 1;
        self.forget_idle();
    }

    /// Who is next, where there is a turn for somebody who waits.
    fn next(&mut self) -> Option<(String, oneshot::Sender<Turn>)> {
        if self.free == 0 {
            return None;
        }
        for tenant in &mut self.tenants {
            tenant.waiting.retain(|waiting| !waiting.is_closed());
        }
        self.forget_idle();
        let may = |tenant: &&Tenant| !tenant.waiting.is_empty() && self.may_begin(tenant.busy);
        let waiting = self.tenants.iter().filter(may);
        let name = waiting.min_by_key(|tenant| (tenant.busy, tenant.last))?.name.clone();
        let waiting = self.tenant(&name).waiting.pop_front()?;
        self.free -= 1;
        self.begin(&name);
        Some((name, waiting))
    }

    fn forget_idle(&mut self) {
        self.tenants.retain(|tenant| tenant.busy > 0 || !tenant.waiting.is_empty());
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    type Waiting<'a> = Pin<Box<dyn Future<Output = Turn> + 'a>>;

    fn waits<'a>(turns: &'a Turns, tenant: &'a str) -> Waiting<'a> {
        let mut waiting: Waiting<'a> = Box::pin(turns.take(tenant));
        assert!(turn_of(&mut waiting).is_none(), "{tenant} has a turn at once");
        waiting
    }

    fn turn_of(waiting: &mut Waiting<'_>) -> Option<Turn> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(turn) => Some(turn),
            std::task::Poll::Pending => None,
        }
    }

    /// Ends the turn and says who is next.
    fn next(turn: Turn, waiting: &mut Vec<(&'static str, Waiting<'_>)>) -> (&'static str, Turn) {
        drop(turn);
        let mut served: Vec<_> =
            waiting.iter_mut().enumerate().filter_map(|(at, (_, w))| turn_of(w).map(|turn| (at, turn))).collect();
        assert_eq!(served.len(), 1, "one turn, one next");
        let (at, turn) = served.remove(0);
        (waiting.remove(at).0, turn)
    }

    #[test]
    fn a_tenant_with_much_to_do_keeps_another_waiting_for_one_turn() {
        let turns = Turns::new(1, 1);
        let mut turn = turn_of(&mut (Box::pin(turns.take("bombs")) as Waiting<'_>)).expect("nobody waits");
        let mut waiting: Vec<(&str, Waiting<'_>)> = (0..500).map(|_| ("bombs", waits(&turns, "bombs"))).collect();
        for tenant in ["acme", "beta", "acme"] {
            waiting.push((tenant, waits(&turns, tenant)));
        }
        let mut order = Vec::new();
        for _ in 0..6 {
            let (tenant, next) = next(turn, &mut waiting);
            order.push(tenant);
            turn = next;
        }
        assert_eq!(order, ["acme", "beta", "bombs", "acme", "bombs", "bombs"]);
    }

    #[test]
    fn within_a_tenant_the_first_is_served_first_and_who_gave_up_is_passed_over() {
        let turns = Turns::new(2, 2);
        let held: Vec<Turn> =
            (0..2).map(|_| turn_of(&mut (Box::pin(turns.take("a")) as Waiting<'_>)).unwrap()).collect();
        let gave_up = waits(&turns, "a");
        let mut second = waits(&turns, "a");
        let mut third = waits(&turns, "a");
        drop(gave_up);
        let mut held = held.into_iter();
        drop(held.next());
        let turn = turn_of(&mut second).expect("it is its turn");
        assert!(turn_of(&mut third).is_none());
        drop(turn);
        assert!(turn_of(&mut third).is_some());
        drop(held);
        assert_eq!(lock(&turns.0).free, 2, "all turns are back");
        assert!(lock(&turns.0).tenants.is_empty(), "nobody is remembered");
    }

    #[test]
    fn a_tenant_that_keeps_all_its_turns_leaves_others_theirs() {
        let turns = Turns::new(3, 2);
        let at_once = |tenant| turn_of(&mut (Box::pin(turns.take(tenant)) as Waiting<'_>));
        let held = [at_once("a").expect("it is free"), at_once("a").expect("it is free")];
        let mut third = waits(&turns, "a");
        let other = at_once("b").expect("one is left for it");
        let mut another = waits(&turns, "b");
        drop(other);
        assert!(turn_of(&mut third).is_none(), "it has two");
        assert!(turn_of(&mut another).is_some());
        drop(held);
        assert!(turn_of(&mut third).is_some());
    }

    #[test]
    fn the_turns_that_are_kept_go_to_tenants_that_have_none() {
        let turns = Turns::new(4, 2).keeping(2);
        let at_once = |tenant| turn_of(&mut (Box::pin(turns.take(tenant)) as Waiting<'_>));
        let held = [at_once("a").expect("it is free"), at_once("a").expect("more than are kept are free")];
        let first_of_b = at_once("b").expect("it has none");
        let mut second_of_b = waits(&turns, "b");
        let first_of_c = at_once("c").expect("it has none");
        drop(first_of_c);
        assert!(turn_of(&mut second_of_b).is_none(), "two are free, and kept");
        drop(held);
        assert!(turn_of(&mut second_of_b).is_some());
        drop(first_of_b);
    }

    #[test]
    fn who_gave_up_is_forgotten_though_no_turn_ends() {
        let turns = Turns::new(1, 1);
        let held = turn_of(&mut (Box::pin(turns.take("a")) as Waiting<'_>));
        for _ in 0..100 {
            drop(waits(&turns, "a"));
        }
        assert_eq!(lock(&turns.0).tenant("a").waiting.len(), 1);
        drop(held);
    }

    #[test]
    fn a_turn_that_came_too_late_for_who_waited_is_not_lost() {
        let turns = Turns::new(1, 1);
        let turn = turn_of(&mut (Box::pin(turns.take("a")) as Waiting<'_>)).expect("nobody waits");
        let waiting = waits(&turns, "b");
        drop(turn);
        // It has been given the turn and never looks.
        drop(waiting);
        assert_eq!(lock(&turns.0).free, 1);
    }
}
