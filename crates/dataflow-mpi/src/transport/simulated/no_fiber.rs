//! Where there are no fibers, actors are threads.

/// Never made.
pub(super) struct Fiber(std::convert::Infallible);

/// Never made.
pub(super) struct Stack;

/// None.
pub(super) struct Stacks;

impl Stacks {
    /// None.
    pub fn new(_: usize) -> Self {
        Stacks
    }

    /// Not here.
    pub fn take(&mut self) -> Result<Stack, String> {
        Err("there are no fibers on this system: worlds run on threads here".into())
    }

    /// Never called.
    pub fn give(&mut self, _: Stack) {}
}

impl Fiber {
    /// Not here: there is no [`Stack`].
    pub fn new(_: Stack, _: Box<dyn FnOnce()>) -> Self {
        unreachable!("there is no stack for a fiber on this system")
    }

    /// Never called.
    pub fn resume(&mut self) -> Option<Stack> {
        match self.0 {}
    }
}

/// Never called.
pub(super) fn suspend() {
    unreachable!("no fiber runs on this system")
}
