//! Programs: nests of loops with affine bounds around statements that access families of data.

use crate::affine::{Affine, Var};
use crate::system::{Inexact, System, equal};

/// A program, as it is written: parameters, families of data, and statements in nests of loops.
///
/// Parameters are integers ≥ 0 of which nothing else is known.
///
/// # Examples
/// ```
/// use dataflow_affine::{Mode, Program};
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let a = program.family("A", true);
/// program.each("i", 1, n, |program, i| {
///     program.task("Add", &[(Mode::Update, a, &[i + 0]), (Mode::Read, a, &[i - 1])]);
/// });
/// let derived = dataflow_affine::derive(&program).unwrap();
/// assert!(derived.text(&program).contains("-> Add { i: i + 1 }.A[i - 1]"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Program {
    names: Vec<String>,
    parameters: Vec<String>,
    pub(crate) families: Vec<Family>,
    pub(crate) statements: Vec<Statement>,
    // Where the next statement will stand.
    loops: Vec<Loop>,
    position: Vec<usize>,
    conditions: Vec<Condition>,
}

/// Data that are told apart by subscripts.
///
/// # Examples
/// See [`Program`](Program#examples).
#[derive(Clone, Debug)]
pub struct Family {
    /// Its name.
    pub name: String,
    /// Whether its data come from a store and go back there; otherwise tasks make them.
    pub stored: bool,
    /// Whether there are no data, and tasks are only ordered: whoever reads what nobody wrote waits for
    /// nobody.
    pub orders: bool,
    /// Whether [`Relation`](crate::Relation)s say who feeds whom, whatever the loops do.
    pub related: bool,
    /// Which subscripts there are, over [`Program::subscript`]s; `None`: not said.
    pub domain: Option<(Vec<Var>, System)>,
}

/// What a task does with a datum.
///
/// # Examples
/// See [`Program`](Program#examples).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads it.
    Read,
    /// Reads it where somebody wrote it.
    Optional,
    /// Changes it.
    Update,
    /// Reads it and hands it on: those that read it later get it from here.
    Give,
    /// Makes it.
    New,
}

impl Mode {
    /// Whether a version comes in.
    pub fn reads(self) -> bool {
        self != Mode::New
    }

    /// Whether a version goes out.
    pub fn writes(self) -> bool {
        matches!(self, Mode::Update | Mode::Give | Mode::New)
    }

    /// Whether what goes out is another version than before, which belongs home: who gives a datum on
    /// changes nothing.
    pub fn changes(self) -> bool {
        matches!(self, Mode::Update | Mode::New)
    }
}

/// A statement: the tasks of one class.
///
/// # Examples
/// ```
/// use dataflow_affine::{Mode, Program};
///
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let a = program.family("A", true);
/// program.each("i", 1, n, |program, i| program.task("Add", &[(Mode::Update, a, &[i + 0])]));
///
/// let add = &program.statements()[0];
/// let (each, access) = (&add.loops[0], &add.accesses[0]);
/// assert_eq!((program.name(each.var), program.expression(&each.to)), ("i", "n".to_string()));
/// assert_eq!(program.element(access.family, &access.subscripts), "A[i]");
/// // Five is a step of the loop where n is 10, and none where n is 5.
/// let at = |n_is| move |var| if var == each.var { 5 } else { n_is };
/// assert!(add.base.holds(&at(10)) && !add.base.holds(&at(5)));
/// ```
#[derive(Clone, Debug)]
pub struct Statement {
    /// The class's name.
    pub name: String,
    /// The loops around it, outermost first.
    pub loops: Vec<Loop>,
    /// Where it stands in the text: in the program, in the outermost loop, …
    pub(crate) position: Vec<usize>,
    /// What the loops and the conditions say that are one conjunction, with what is known of the
    /// parameters.
    pub base: System,
    /// Where its tasks are: disjoint parts of `base`.
    pub pieces: Vec<System>,
    /// What a task accesses, in order.
    pub accesses: Vec<Access>,
    /// The order in which its variables are shown, by number.
    pub shown: Vec<usize>,
}

/// A loop around a statement.
///
/// # Examples
/// See [`Statement`](Statement#examples).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Its variable.
    pub var: Var,
    /// Whether it counts down.
    pub descends: bool,
    /// Its first value (its last one if it counts down).
    pub from: Affine,
    /// Its values are less than this.
    pub to: Affine,
}

impl Loop {
    /// What is not negative in its steps: the distances to its first and to its last value.
    pub fn bounds(&self) -> [Affine; 2] {
        let var = Affine::from(self.var);
        [var.plus(&self.from, -1), self.to.plus(&var, -1) - 1]
    }
}

/// One access of a statement.
///
/// # Examples
/// See [`Statement`](Statement#examples).
#[derive(Clone, Debug)]
pub struct Access {
    /// How it is called; otherwise by its datum.
    pub name: Option<String>,
    /// What is done.
    pub mode: Mode,
    /// To data of which family, by number.
    pub family: usize,
    /// Which of them.
    pub subscripts: Vec<Affine>,
}

/// An access of the tasks in one piece of a statement's domain.
pub(crate) struct Accessed<'p> {
    /// The numbers of statement and access.
    pub place: (usize, usize),
    pub statement: &'p Statement,
    pub access: &'p Access,
    pub piece: &'p System,
}

/// A condition around statements, as disjoint conjunctions.
///
/// # Examples
/// ```
/// use dataflow_affine::{Affine, Mode, Program, System, disjoint};
///
/// let mut program = Program::default();
/// let n = program.parameter("n");
/// let a = program.family("A", true);
/// program.each("i", 0, n, |program, i| {
///     // if i != 3: less, or more
///     let other = disjoint(vec![System::new([Affine::from(2) - i]), System::new([i - 4])]);
///     program.only_if(other.expect("bounds of integers"));
///     program.task("Add", &[(Mode::Update, a, &[i + 0])]);
///     program.unless();
/// });
/// assert_eq!(program.statements()[0].pieces.len(), 2);
/// ```
pub type Condition = Vec<System>;

impl Program {
    /// A parameter: an integer ≥ 0.
    pub fn parameter(&mut self, name: &str) -> Var {
        self.parameters.push(name.to_owned());
        Var::parameter(self.parameters.len() - 1)
    }

    fn variable(&mut self, name: &str) -> Var {
        self.names.push(name.to_owned());
        Var(self.names.len() as u32 - 1)
    }

    /// A name for a subscript, to say in [`Family::domain`] which data there are.
    pub fn subscript(&mut self, name: &str) -> Var {
        self.variable(name)
    }

    /// A family of data; its number.
    pub fn family(&mut self, name: &str, stored: bool) -> usize {
        self.families.push(Family {
            name: name.to_owned(),
            stored,
            orders: false,
            related: false,
            domain: None,
        });
        self.families.len() - 1
    }

    /// The data of a family only order tasks.
    pub fn orders(&mut self, family: usize) {
        self.families[family].orders = true;
    }

    /// Relations say who feeds whom with the data of a family, whatever the loops do.
    pub fn related(&mut self, family: usize) {
        self.families[family].related = true;
    }

    /// Says which data a family has.
    pub fn limit(&mut self, family: usize, subscripts: Vec<Var>, domain: System) {
        self.families[family].domain = Some((subscripts, domain));
    }

    /// A loop from `from` to before `to`, and what stands in it.
    pub fn each(
        &mut self,
        name: &str,
        from: impl Into<Affine>,
        to: impl Into<Affine>,
        body: impl FnOnce(&mut Program, Var),
    ) {
        let var = self.enter(name, from.into(), to.into(), false);
        body(self, var);
        self.leave();
    }

    /// A loop begins; what follows until [`leave`](Self::leave) stands in it.
    pub fn enter(&mut self, name: &str, from: Affine, to: Affine, descends: bool) -> Var {
        let var = self.variable(name);
        let at = self.next_position();
        self.position.push(at);
        self.loops.push(Loop {
            var,
            descends,
            from,
            to,
        });
        self.position.push(0);
        var
    }

    /// The loop that was entered last ends.
    pub fn leave(&mut self) {
        self.position.pop();
        if let Some(at) = self.position.pop() {
            self.position.push(at + 1);
        }
        self.loops.pop();
    }

    /// Takes the number of the next thing in the innermost loop.
    fn next_position(&mut self) -> usize {
        self.position.pop().unwrap_or(0)
    }

    /// What follows until [`unless`](Self::unless) stands under a condition.
    pub fn only_if(&mut self, condition: Condition) {
        self.conditions.push(condition);
    }

    /// The condition that was stated last ends.
    pub fn unless(&mut self) {
        self.conditions.pop();
    }

    /// A statement: its name, and what its tasks access.
    pub fn task(&mut self, name: &str, accesses: &[(Mode, usize, &[Affine])]) {
        let at = self.next_position();
        let mut position = self.position.clone();
        position.push(at);
        self.position.push(at + 1);
        let (base, pieces) = self.domain();
        let access = |&(mode, family, subscripts): &(Mode, usize, &[Affine])| Access {
            name: None,
            mode,
            family,
            subscripts: subscripts.to_vec(),
        };
        self.statements.push(Statement {
            name: name.to_owned(),
            loops: self.loops.clone(),
            position,
            base,
            pieces,
            accesses: accesses.iter().map(access).collect(),
            shown: (0..self.loops.len()).collect(),
        });
    }

    /// What loops and conditions say here that are one conjunction, with what is known of the parameters.
    pub fn known(&self) -> System {
        let bounds = self.loops.iter().flat_map(Loop::bounds);
        let mut base = self.context().with(bounds);
        for condition in &self.conditions {
            if let [only] = &condition[..] {
                base = base.and(only);
            }
        }
        base
    }

    /// The domain of a statement here: what is convex, and disjoint parts of it.
    fn domain(&self) -> (System, Vec<System>) {
        let base = self.known();
        let mut pieces = vec![base.clone()];
        for condition in self.conditions.iter().filter(|parts| parts.len() != 1) {
            // Refused by `fault`, whatever the other conditions say.
            if pieces.len() > MOST_PIECES {
                break;
            }
            let both = |piece: &System| condition.iter().map(|part| piece.and(part)).collect();
            pieces = pieces.iter().flat_map(|p| -> Vec<_> { both(p) }).collect();
            // `if j != k` where the loops say that j > k: the other half has no task. A statement without any
            // keeps its parts.
            let has_tasks = |piece: &&System| !matches!(piece.is_empty(), Ok(true));
            let with_tasks: Vec<_> = pieces.iter().filter(has_tasks).cloned().collect();
            if !with_tasks.is_empty() {
                pieces = with_tasks;
            }
        }
        (base, pieces)
    }

    /// Names the accesses of the statement that was written last, and says in which order its
    /// variables are shown.
    pub fn show(&mut self, names: Vec<Option<String>>, shown: Vec<usize>) {
        if let Some(statement) = self.statements.last_mut() {
            for (access, name) in statement.accesses.iter_mut().zip(names) {
                access.name = name;
            }
            statement.shown = shown;
        }
    }

    /// What is known of the parameters: they are not negative.
    pub(crate) fn context(&self) -> System {
        System::new(self.parameters().map(Affine::from))
    }

    /// The parameters.
    pub fn parameters(&self) -> impl Iterator<Item = Var> + use<> {
        (0..self.parameters.len()).map(Var::parameter)
    }

    /// The families of data.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The statements, in the order of the text.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// Every access to data of a family.
    pub(crate) fn accesses_to(&self, family: usize) -> impl Iterator<Item = Accessed<'_>> {
        let statements = self.statements.iter().enumerate();
        let accesses = statements.flat_map(|(number, statement)| {
            let accesses = statement.accesses.iter().enumerate();
            accesses.map(move |(at, access)| ((number, at), statement, access))
        });
        let own = accesses.filter(move |of| of.2.family == family);
        own.flat_map(|(place, statement, access)| {
            statement.pieces.iter().map(move |piece| Accessed {
                place,
                statement,
                access,
                piece,
            })
        })
    }

    /// The name of a parameter or of a loop's variable.
    pub fn name(&self, var: Var) -> &str {
        match var.as_parameter() {
            Some(number) => &self.parameters[number],
            None => &self.names[var.own().0 as usize],
        }
    }
}

impl Statement {
    /// Its variables, outermost first.
    pub fn vars(&self) -> impl Iterator<Item = Var> {
        self.loops.iter().map(|each| each.var)
    }

    /// When a task runs in the order of the program: what comes later is larger.
    pub fn when(&self, iteration: &[i64]) -> Vec<i64> {
        let steps = self.loops.iter().zip(iteration);
        let steps = steps.map(|(each, &value)| if each.descends { -value } else { value });
        let mut when = Vec::new();
        for (at, step) in self.position.iter().zip(steps.chain([0])) {
            when.extend([*at as i64, step]);
        }
        when
    }

    /// How many loops it shares with another statement.
    pub(crate) fn shared(&self, other: &Statement) -> usize {
        let same = self.loops.iter().zip(&other.loops);
        same.take_while(|(a, b)| a.var == b.var).count()
    }
}

/// The most parts of a statement's domain: of each two there may be an edge, and what one of them says is looked at
/// for each. Four variables that differ from each other have 24.
pub(crate) const MOST_PIECES: usize = 64;

/// Disjoint conjunctions that hold together where one of these does.
///
/// # Errors
/// If that cannot be told exactly, or they are more than 64.
pub fn disjoint(conjunctions: Vec<System>) -> Result<Condition, Inexact> {
    let mut parts: Vec<System> = Vec::new();
    for conjunction in conjunctions {
        let mut fresh = vec![conjunction];
        for part in &parts {
            fresh = crate::system::subtract(fresh, part)?;
        }
        for part in fresh {
            if !part.is_empty()? {
                parts.push(part);
            }
        }
        if parts.len() > MOST_PIECES {
            return Err(Inexact::too_long());
        }
    }
    Ok(parts)
}

/// `a = b` as a conjunction.
pub fn equation(a: &Affine, b: &Affine) -> System {
    System::new(equal(a, b))
}

/// Two instances that access the same datum; the variables of the second one are `other`s.
pub(crate) fn same_datum(piece: &System, a: &Access, its_piece: &System, b: &Access) -> System {
    let subscripts = a.subscripts.iter().zip(&b.subscripts);
    let equations = subscripts.flat_map(|(a, b)| equal(a, &b.renamed(&Var::other)));
    piece.and(&its_piece.renamed(&Var::other)).with(equations)
}
