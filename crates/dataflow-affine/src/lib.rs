//! Loops in, formulas out: exact dependence analysis of affine loop nests.
//!
//! A [`Program`] is what a textbook prints: loops with affine bounds around statements that read and
//! write elements of families of data. [`derive()`] finds for every statement which task wrote what it
//! reads, who reads what it writes, what goes home, and which tasks wait for nobody: as formulas in
//! the parameters, nothing unrolled. [`Fault`] says where a program has no such formulas.
//!
//! # Law
//! Never an approximation: each answer is exact for all integers, or the program is refused.
//!
//! # Source
//! Bosilca, Bouteiller, Danalis, Herault, Dongarra, *From Serial Loops to Parallel Execution on
//! Distributed Systems*, Euro-Par 2012; theory in [`Program`]'s parts: Feautrier 1991, Pugh 1991.

mod affine;
mod count;
mod ends;
mod fault;
mod last;
mod program;
mod relation;
mod said;
mod sources;
mod system;
mod targets;
mod text;

pub use affine::{Affine, Var};
pub use count::{Polynomial, count, position};
pub use fault::{Fault, Reason};
pub use program::{Access, Condition, Family, Loop, Mode, Program, Statement, disjoint, equation};
pub use relation::{End, Relation, relate};
pub use said::{Comparison, Said, chain, excludes, said};
pub use sources::{Input, Source};
use system::Limit;
pub use system::{Inexact, System, forget};
pub use targets::{Output, Part, Range, enumerated};

/// What was derived, statement by statement.
///
/// # Examples
/// Each task adds the number before it to its own:
/// ```
/// use dataflow_affine::{Mode, Program, derive};
///
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let a = program.family("A", true);
/// program.each("i", 1, n, |program, i| {
///     program.task("Add", &[(Mode::Update, a, &[i + 0]), (Mode::Read, a, &[i - 1])]);
/// });
/// let derived = derive(&program).unwrap();
/// let of_add = &derived.tasks[0];
///
/// // What `Add { i }` reads as its access 1, access 0 of `Add { i - 1 }` has written, or nobody.
/// let read = &of_add.inputs[1];
/// let source = read.iter().find_map(|input| input.source.as_ref()).unwrap();
/// assert_eq!((source.statement, source.access), (0, 0));
/// assert_eq!(program.expression(&source.iteration[0]), "i - 1");
/// assert!(read.iter().any(|input| input.source.is_none()));
///
/// // The same edge from its other end: one task, no range of them.
/// let fed = &of_add.outputs[0][0];
/// assert_eq!((fed.statement, fed.access, fed.ranges.len()), (0, 1, 0));
/// // What it updates goes home whoever reads it.
/// assert!(of_add.homes[0][0].is_always());
/// ```
#[derive(Clone, Debug)]
pub struct Derived {
    /// The tasks of each statement.
    pub tasks: Vec<Tasks>,
}

/// Both ends of every edge of one statement's tasks.
///
/// # Examples
/// See [`Derived`](Derived#examples).
#[derive(Clone, Debug)]
pub struct Tasks {
    /// For each access, where its datum comes from; nothing if the task makes it.
    pub inputs: Vec<Vec<Input>>,
    /// For each access, who reads what it wrote.
    pub outputs: Vec<Vec<Output>>,
    /// For each access, where its datum goes home: guards that exclude each other.
    pub homes: Vec<Vec<System>>,
    /// Which tasks wait for no other: guards that exclude each other.
    pub roots: Vec<System>,
}

/// Finds both ends of every edge of a program.
///
/// # Errors
/// All places that have no exact formula, or no meaning; see [`Reason`].
pub fn derive(program: &Program) -> Result<Derived, Vec<Fault>> {
    derive_with(program, &[])
}

/// The same where relations say who feeds whom with the data of families that are
/// [`related`](Program::related).
///
/// # Errors
/// As [`derive()`] and [`relate`].
pub fn derive_with(program: &Program, relations: &[Relation]) -> Result<Derived, Vec<Fault>> {
    let derived = of_loops(program, relations)?;
    fault::after(program, &derived)?;
    Ok(derived)
}

/// The same of a program whose data may come from home where they are not: no fault of
/// [`derive()`]'s is looked for that only edges tell.
///
/// # Errors
/// What needs no edges to be seen, and what has no exact formula.
pub fn edges(program: &Program) -> Result<Derived, Vec<Fault>> {
    of_loops(program, &[])
}

/// Both ends of every edge: of families that are [`related`](Program::related) by relations, of the
/// others by the loops.
fn of_loops(program: &Program, relations: &[Relation]) -> Result<Derived, Vec<Fault>> {
    forget();
    let _limit = Limit::begin();
    fault::before(program)?;
    let statements = &program.statements;
    let mut inputs = Vec::new();
    for (number, statement) in statements.iter().enumerate() {
        let mut of_statement = Vec::new();
        for (at, access) in statement.accesses.iter().enumerate() {
            of_statement.push(match access.mode.reads() {
                true if program.families[access.family].related => {
                    relation::alternatives(program, relations, (number, at))?
                }
                true => sources::inputs(program, statement, access)
                    .map_err(|reason| fault::one((number, at), reason))?,
                false => Vec::new(),
            });
        }
        inputs.push(of_statement);
    }
    assemble(program, inputs, |number, access| {
        ends::homes(program, &statements[number], access)
    })
}

/// The other ends of inputs, and what stands at the borders.
fn assemble(
    program: &Program,
    inputs: Vec<Vec<Vec<Input>>>,
    find_homes: impl Fn(usize, usize) -> Result<Vec<System>, Inexact>,
) -> Result<Derived, Vec<Fault>> {
    let statements = &program.statements;
    let mut tasks = Vec::new();
    for (number, statement) in statements.iter().enumerate() {
        let at = |access| move |e| fault::inexact(number, access, e);
        let mut outputs = vec![Vec::new(); statement.accesses.len()];
        let mut homes = outputs.iter().map(|_| Vec::new()).collect::<Vec<_>>();
        for (target, input, source) in edges_from(number, &inputs) {
            let found = targets::outputs(statement, &statements[target.0], target, input);
            outputs[source.access].extend(found.map_err(at(Some(source.access)))?);
        }
        for (access, written) in statement.accesses.iter().enumerate() {
            let all = std::mem::take(&mut outputs[access]);
            outputs[access] = targets::merged(all, statement).map_err(at(Some(access)))?;
            let stored = program.families[written.family].stored;
            if stored && written.mode.changes() {
                homes[access] = find_homes(number, access).map_err(at(Some(access)))?;
            }
        }
        let roots = ends::roots(statement, &inputs[number]).map_err(at(None))?;
        tasks.push(Tasks {
            inputs: inputs[number].clone(),
            outputs,
            homes,
            roots,
        });
    }
    expect_known(&tasks)?;
    Ok(Derived { tasks })
}

/// No task is named by numbers that are too large.
fn expect_known(tasks: &[Tasks]) -> Result<(), Vec<Fault>> {
    for (number, of) in tasks.iter().enumerate() {
        for (access, (inputs, outputs)) in of.inputs.iter().zip(&of.outputs).enumerate() {
            let sources = inputs.iter().filter_map(|input| input.source.as_ref());
            let sources = sources.flat_map(|source| &source.iteration);
            let targets = outputs.iter().flat_map(|output| &output.iteration);
            if sources.chain(targets).any(Affine::is_too_large) {
                let cause = Inexact::too_large(Var::parameter(0));
                return Err(fault::inexact(number, Some(access), cause));
            }
        }
    }
    Ok(())
}

/// What the tasks of a statement feed: statement and access that read, and the alternative with its source.
fn edges_from(
    number: usize,
    inputs: &[Vec<Vec<Input>>],
) -> impl Iterator<Item = ((usize, usize), &Input, &Source)> {
    let readers = inputs.iter().enumerate();
    let accesses = readers.flat_map(|(reader, of_reader)| {
        let accesses = of_reader.iter().enumerate();
        accesses.map(move |(access, alternatives)| ((reader, access), alternatives))
    });
    let all = accesses.flat_map(|(target, all)| all.iter().map(move |input| (target, input)));
    all.filter_map(move |(target, input)| {
        let source = input.source.as_ref().filter(|s| s.statement == number)?;
        Some((target, input, source))
    })
}

/// The example of the README, compiled and run like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
