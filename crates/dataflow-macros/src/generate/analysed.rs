//! What all parts of the output are made from, and ask.

use crate::lower::Lowered;
use crate::parse::{Family, Space, Statement};
use dataflow_affine::{Derived, Inexact, Mode};
use syn::{Error, ImplItemFn, Result};

/// Everything that the parts of the output are made from.
pub(crate) struct Analysed<'s> {
    pub space: &'s Space,
    pub lowered: &'s Lowered<'s>,
    pub derived: &'s Derived,
}

impl Analysed<'_> {
    /// An answer that should have failed earlier.
    pub fn exact<T>(&self, answer: std::result::Result<T, Inexact>) -> Result<T> {
        let text = "a formula of this space is not exact";
        answer.map_err(|_| Error::new(self.space.site, text))
    }

    /// All statements with their numbers: as they are written, and as they were analysed.
    pub fn statements(
        &self,
    ) -> impl Iterator<Item = (usize, &Statement, &dataflow_affine::Statement)> {
        let derived = self.lowered.program.statements().iter();
        let written = self.lowered.statements.iter();
        written
            .zip(derived)
            .enumerate()
            .map(|(at, (own, its))| (at, *own, its))
    }

    /// The function of this name that the user wrote.
    pub fn written(&self, name: &str) -> Option<&ImplItemFn> {
        let mut functions = self.space.functions.iter();
        functions.find(|function| function.sig.ident == name)
    }

    /// The family of an access.
    pub fn family(&self, statement: usize, access: usize) -> &Family {
        let access = &self.lowered.program.statements()[statement].accesses[access];
        &self.space.families[access.family]
    }

    /// The accesses that are flows of their own, in order. What only orders tasks goes out by the flow
    /// through which it came in.
    pub fn flows(&self, statement: usize) -> Vec<usize> {
        let n_accesses = self.lowered.statements[statement].accesses.len();
        let own = |&at: &usize| self.shared_with(statement, at).is_none();
        (0..n_accesses).filter(own).collect()
    }

    /// The access through whose flow another one, that makes what only orders, goes out.
    fn shared_with(&self, statement: usize, access: usize) -> Option<usize> {
        let accesses = &self.lowered.program.statements()[statement].accesses;
        let orders = |at: usize| self.family(statement, at).is_order;
        let made = accesses[access].mode == Mode::New && orders(access);
        let comes_in = |at: &usize| accesses[*at].mode == Mode::Optional && orders(*at);
        (0..accesses.len()).filter(|_| made).find(comes_in)
    }

    /// The number of an access's flow.
    pub fn flow(&self, statement: usize, access: usize) -> usize {
        let own = self.shared_with(statement, access).unwrap_or(access);
        let mut flows = self.flows(statement).into_iter();
        flows.position(|at| at == own).unwrap_or(access)
    }
}
