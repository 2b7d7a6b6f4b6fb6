//! What is written: the grammar of `task_space!`.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, BinOp, Block, Error, Expr, ExprGroup, ExprParen, FieldValue, Generics, Ident,
    ImplItemFn, LitStr, Member, Result, Token, Type, Visibility, WhereClause, braced, bracketed,
    parse_quote, token,
};

/// The names of its tasks, and the space.
pub struct Space {
    /// `$crate` of the crate that defines task spaces.
    pub root: TokenTree,
    pub attributes: Vec<Attribute>,
    pub visibility: Visibility,
    pub task: Ident,
    /// Where names of the user's are known.
    pub site: Span,
    pub impl_attributes: Vec<Attribute>,
    pub generics: Generics,
    pub of: Type,
    pub datum: Type,
    pub functions: Vec<ImplItemFn>,
    pub parameters: Vec<Parameter>,
    pub families: Vec<Family>,
    pub dense: Option<DenseClause>,
    pub items: Vec<Item>,
    pub relations: Vec<Relation>,
    /// What could not be read; behind it nothing was.
    pub fault: Option<Error>,
}

/// `let nt = self.nt;`
pub struct Parameter {
    pub name: Ident,
    pub value: Expr,
}

/// `data A[m, n] where n <= m in STORE at SLOT on RANK of "kind";` or `order H[i, j];`
pub struct Family {
    pub name: Ident,
    pub subscripts: Vec<Ident>,
    pub is_order: bool,
    /// The class of which it is one flow, if it is: lines say whom it feeds.
    pub class: Option<Ident>,
    pub domain: Option<Expr>,
    pub home: Option<(Expr, Expr)>,
    pub rank: Option<Placement>,
    pub kind: Option<LitStr>,
}

impl Family {
    /// What says where data lie: store, slot and rank.
    pub fn place(&self) -> Vec<TokenStream> {
        let home = self.home.iter().flat_map(|(store, slot)| [store, slot]);
        let mut place: Vec<_> = home.map(ToTokens::to_token_stream).collect();
        match &self.rank {
            Some(Placement::Rank(rank)) => place.push(rank.to_token_stream()),
            Some(Placement::Dealt(directions)) => directions.iter().for_each(|(what, places)| {
                place.extend([what.to_token_stream(), places.to_token_stream()]);
            }),
            None => {}
        }
        place
    }
}

/// Where tasks run: `on RANK`, `on m % p` or `on (m % p, n % q)`.
pub enum Placement {
    Rank(Box<Expr>),
    /// Dealt out to a row of ranks or to a grid of them, row by row: what is dealt, and to how many.
    Dealt(Vec<(Ident, Expr)>),
}

impl Parse for Placement {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut written: Expr = input.parse()?;
        while let Expr::Paren(ExprParen { expr, .. }) | Expr::Group(ExprGroup { expr, .. }) =
            written
        {
            written = *expr;
        }
        let parts: Vec<&Expr> = match &written {
            Expr::Tuple(parts) => parts.elems.iter().collect(),
            other => vec![other],
        };
        let dealt = |part: &&Expr| match part {
            Expr::Binary(binary) if matches!(binary.op, BinOp::Rem(_)) => match &*binary.left {
                Expr::Path(path) => Some((path.path.get_ident()?.clone(), (*binary.right).clone())),
                _ => None,
            },
            _ => None,
        };
        let all: Option<Vec<_>> = parts.iter().map(dealt).collect();
        let is_tuple = matches!(written, Expr::Tuple(_));
        match all {
            Some(dealt) if (1..=2).contains(&dealt.len()) => Ok(Placement::Dealt(dealt)),
            _ if is_tuple => {
                let text = format!(
                    "a grid of ranks is said as `on (m % p, n % q)`, a row of them as `on m % p`; of other \
                     numbers say the rank itself, `on Rank({})`",
                    numbered(&parts)
                );
                Err(Error::new_spanned(&written, text))
            }
            _ => Ok(Placement::Rank(Box::new(written))),
        }
    }
}

/// The number of a rank on a grid that is written as two remainders: `m / b % p * q + n % q`.
fn numbered(parts: &[&Expr]) -> String {
    if let [row @ Expr::Binary(_), Expr::Binary(column)] = parts
        && matches!((row, column.op), (Expr::Binary(row), BinOp::Rem(_)) if matches!(row.op, BinOp::Rem(_)))
    {
        let [row, places] = [row.to_token_stream(), column.right.to_token_stream()];
        return format!("{row} * {places} + {}", column.to_token_stream());
    }
    "row * q + column".to_owned()
}

/// `dense;` or `dense if self.dense;`
pub struct DenseClause {
    pub keyword: Ident,
    pub condition: Option<Expr>,
}

pub enum Item {
    For(For),
    If(If),
    Task(Box<Statement>),
}

/// `for k in 0..nt { … }`, `for k in (0..nt).rev() { … }`
pub struct For {
    pub var: Ident,
    pub range: Expr,
    pub body: Vec<Item>,
}

/// `if k < n { … } else { … }`
pub struct If {
    pub condition: Expr,
    pub then: Vec<Item>,
    pub otherwise: Vec<Item>,
}

/// `Name { m, k }: ACCESS, …, on RANK, priority URGENCY => BODY`
pub struct Statement {
    pub name: Ident,
    pub parameters: Vec<Ident>,
    pub accesses: Vec<Access>,
    pub rank: Option<Placement>,
    pub priority: Option<Expr>,
    pub body: Option<TokenStream>,
}

/// `update tile = A[m, k]`
pub struct Access {
    pub mode: Ident,
    pub name: Option<Ident>,
    pub family: Ident,
    pub subscripts: Vec<Expr>,
    /// All of `A[m, k]`, for errors.
    pub element: TokenStream,
    /// Whether it has no element: relations say what it is.
    pub is_flow: bool,
    /// What kind of datum a flow without an element is.
    pub kind: Option<LitStr>,
}

impl Access {
    /// `A[m, k]` as it is written.
    pub fn shown(&self) -> String {
        let text = self.element.to_string();
        text.replace(" ,", ",")
            .replace(" [", "[")
            .replace("[ ", "[")
            .replace(" ]", "]")
    }
}

const MODES: [&str; 6] = ["read", "optional", "update", "give", "new", "order"];

impl Parse for Space {
    fn parse(input: ParseStream) -> Result<Self> {
        let root = input.parse()?;
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        input.parse::<Token![enum]>()?;
        let task = input.parse()?;
        input.parse::<Token![;]>()?;
        let impl_attributes = input.call(Attribute::parse_outer)?;
        let site = input.parse::<Token![impl]>()?.span;
        let mut generics: Generics = match input.peek(Token![<]) {
            true => input.parse()?,
            false => Generics::default(),
        };
        let space: Ident = input.parse()?;
        if space != "TaskSpace" {
            let text = "expected `impl TaskSpace for …`: the macro writes this trait only";
            return Err(Error::new(space.span(), text));
        }
        input.parse::<Token![for]>()?;
        let of = input.parse()?;
        generics.where_clause = input.parse::<Option<WhereClause>>()?;
        let content;
        braced!(content in input);
        let mut space = Space {
            root,
            attributes,
            visibility,
            task,
            site,
            impl_attributes,
            generics,
            of,
            datum: parse_quote!(u64), // until it is said
            functions: Vec::new(),
            parameters: Vec::new(),
            families: Vec::new(),
            dense: None,
            items: Vec::new(),
            relations: Vec::new(),
            fault: None,
        };
        // Read by itself: what is left unread then is no second fault.
        let inside: TokenStream = content.parse()?;
        let read = |inside: ParseStream| space.read(inside);
        space.fault = read.parse2(inside).err();
        Ok(space)
    }
}

impl Space {
    /// All that stands within the braces.
    fn read(&mut self, content: ParseStream) -> Result<()> {
        let mut datum = false;
        while !content.is_empty() {
            if content.peek(Token![type]) {
                self.datum = datum_of(content)?;
                datum = true;
            } else if content.peek(Token![let]) {
                self.parameters.push(content.parse()?);
            } else if content.peek(Token![fn]) || content.peek(Token![#]) {
                self.functions.push(function(content)?);
            } else if is_word(content, &["data", "order"]) {
                self.families.push(content.parse()?);
            } else if is_word(content, &["dense"]) {
                self.dense = Some(content.parse()?);
            } else if is_relation(content) {
                self.relations.push(content.parse()?);
            } else {
                self.items.push(content.parse()?);
            }
        }
        let by_loops = self.relations.is_empty();
        complete(&mut self.items, &mut self.families, by_loops)?;
        let missing = "the space does not say what flows between its tasks: `type Datum = …;`";
        match datum {
            true => Ok(()),
            false => Err(Error::new(self.site, missing)),
        }
    }
}

/// `type Datum = Vec<f64>;`
fn datum_of(content: ParseStream) -> Result<Type> {
    content.parse::<Token![type]>()?;
    let name: Ident = content.parse()?;
    if name != "Datum" {
        let text = "only `type Datum = …;` is said here; the tasks' name is the enum above";
        return Err(Error::new(name.span(), text));
    }
    content.parse::<Token![=]>()?;
    let datum = content.parse()?;
    content.parse::<Token![;]>()?;
    Ok(datum)
}

/// A function, with what is written at it.
fn function(content: ParseStream) -> Result<ImplItemFn> {
    let fork = content.fork();
    let attributes = fork.call(Attribute::parse_outer)?;
    let is_condition = |a: &&Attribute| a.path().is_ident("cfg") || a.path().is_ident("cfg_attr");
    if let Some(condition) = attributes.iter().find(is_condition) {
        let text = "what is derived depends on whether this function is here, and the macro cannot know: put the \
                    condition at `task_space!`, one for each case";
        return Err(Error::new_spanned(condition, text));
    }
    match attributes.first().filter(|_| !fork.peek(Token![fn])) {
        None => content.parse(),
        Some(first) => Err(misplaced(first)),
    }
}

/// An attribute where none stands.
fn misplaced(attribute: &Attribute) -> Error {
    let text = "attributes and `///` stand before `fn` here, and before the enum and the `impl`: a remark on a \
                statement is `// …`";
    Error::new_spanned(attribute, text)
}

/// Whether one of these words is next, and not the name of a task (`data { … }`).
fn is_word(input: ParseStream, words: &[&str]) -> bool {
    let fork = input.fork();
    let word = fork.parse::<Ident>();
    word.is_ok_and(|word| words.iter().any(|w| word == w)) && !fork.peek(token::Brace)
}

/// Whether `Name { … }.` is next.
fn is_relation(input: ParseStream) -> bool {
    let fork = input.fork();
    let start = fork.parse::<Ident>().is_ok() && fork.peek(token::Brace);
    start && fork.parse::<proc_macro2::Group>().is_ok() && fork.peek(Token![.])
}

/// Gives each access without an element a family of its own: relations say where it comes from. In
/// loops only what orders tasks is without one.
fn complete(items: &mut [Item], families: &mut Vec<Family>, by_loops: bool) -> Result<()> {
    for item in items {
        let statement = match item {
            Item::For(each) => {
                complete(&mut each.body, families, by_loops)?;
                continue;
            }
            Item::If(parts) => {
                complete(&mut parts.then, families, by_loops)?;
                complete(&mut parts.otherwise, families, by_loops)?;
                continue;
            }
            Item::Task(statement) => statement,
        };
        for access in statement.accesses.iter_mut().filter(|a| a.is_flow) {
            let is_order = access.mode == "order";
            let Some(name) = access.name.as_ref().filter(|_| is_order || !by_loops) else {
                let text = format!(
                    "which datum? Say `{} {} = A[…]`; only relations between tasks feed flows without one",
                    access.mode, access.family
                );
                return Err(Error::new(access.family.span(), text));
            };
            families.push(Family {
                name: name.clone(),
                subscripts: Vec::new(),
                is_order,
                class: Some(statement.name.clone()),
                domain: None,
                home: None,
                rank: None,
                kind: access.kind.take(),
            });
        }
    }
    Ok(())
}

/// `TASK.FLOW -> TASK.FLOW, for i in a..b, if CONDITION;` or `TASK.FLOW -> home;`
pub struct Relation {
    pub source: End,
    pub target: Option<End>,
    pub ranges: Vec<(Ident, Expr)>,
    pub conditions: Vec<Expr>,
}

/// `Gemm { m: i, n: m, k }.right`
pub struct End {
    pub class: Ident,
    pub fields: Vec<(Ident, Expr)>,
    pub flow: Ident,
}

impl Parse for End {
    fn parse(input: ParseStream) -> Result<Self> {
        let class = input.parse()?;
        let content;
        braced!(content in input);
        let fields = Punctuated::<FieldValue, Token![,]>::parse_terminated(&content)?;
        let field = |field: FieldValue| match field.member {
            Member::Named(name) => Ok((name, field.expr)),
            Member::Unnamed(index) => Err(Error::new(index.span, "a task's parameter has a name")),
        };
        let fields = fields.into_iter().map(field).collect::<Result<_>>()?;
        input.parse::<Token![.]>()?;
        let flow = input.parse()?;
        Ok(End {
            class,
            fields,
            flow,
        })
    }
}

impl Parse for Relation {
    fn parse(input: ParseStream) -> Result<Self> {
        let source = input.parse()?;
        input.parse::<Token![->]>()?;
        let target = match is_word(input, &["home"]) {
            true => {
                input.parse::<Ident>()?;
                None
            }
            false => Some(input.parse()?),
        };
        let (mut ranges, mut conditions) = (Vec::new(), Vec::new());
        while input.parse::<Option<Token![,]>>()?.is_some() {
            if input.parse::<Option<Token![if]>>()?.is_some() {
                conditions.push(input.parse()?);
                continue;
            }
            input.parse::<Token![for]>()?;
            let var = input.parse()?;
            input.parse::<Token![in]>()?;
            ranges.push((var, input.parse()?));
        }
        input.parse::<Token![;]>()?;
        Ok(Relation {
            source,
            target,
            ranges,
            conditions,
        })
    }
}

impl Parse for Parameter {
    fn parse(input: ParseStream) -> Result<Self> {
        input.parse::<Token![let]>()?;
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        input.parse::<Token![;]>()?;
        Ok(Parameter { name, value })
    }
}

impl Parse for Family {
    fn parse(input: ParseStream) -> Result<Self> {
        let is_order = input.parse::<Ident>()? == "order";
        let name = input.parse()?;
        expect_one_pair(&name, input)?;
        let content;
        bracketed!(content in input);
        let subscripts = Punctuated::<Ident, Token![,]>::parse_terminated(&content)?;
        let mut family = Family {
            name,
            subscripts: subscripts.into_iter().collect(),
            is_order,
            class: None,
            domain: None,
            home: None,
            rank: None,
            kind: None,
        };
        if input.parse::<Option<Token![where]>>()?.is_some() {
            family.domain = Some(input.parse()?);
        }
        if !is_order && input.parse::<Option<Token![in]>>()?.is_some() {
            let store = input.parse()?;
            expect_word(
                input,
                "at",
                "the slot of a datum in its store: `in STORE at SLOT`",
            )?;
            family.home = Some((store, input.parse()?));
        }
        if says(input, "on") {
            input.parse::<Ident>()?;
            family.rank = Some(input.parse()?);
        }
        if says(input, "of") {
            input.parse::<Ident>()?;
            family.kind = Some(input.parse()?);
        }
        input.parse::<Token![;]>()?;
        Ok(family)
    }
}

/// Whether this word is next.
fn says(input: ParseStream, word: &str) -> bool {
    input.fork().parse::<Ident>().is_ok_and(|own| own == word)
}

fn expect_word(input: ParseStream, word: &str, what: &str) -> Result<()> {
    if !says(input, word) {
        return Err(input.error(format!("expected `{word}`: {what}")));
    }
    input.parse::<Ident>().map(drop)
}

impl Parse for DenseClause {
    fn parse(input: ParseStream) -> Result<Self> {
        let keyword = input.parse()?;
        let condition = match input.parse::<Option<Token![if]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        input.parse::<Token![;]>()?;
        Ok(DenseClause { keyword, condition })
    }
}

fn items(input: ParseStream) -> Result<Vec<Item>> {
    let content;
    braced!(content in input);
    let mut items = Vec::new();
    while !content.is_empty() {
        items.push(content.parse()?);
    }
    Ok(items)
}

impl Parse for Item {
    fn parse(input: ParseStream) -> Result<Self> {
        if input.peek(Token![for]) {
            input.parse::<Token![for]>()?;
            let var = input.parse()?;
            input.parse::<Token![in]>()?;
            let range = input.call(Expr::parse_without_eager_brace)?;
            let body = items(input)?;
            return Ok(Item::For(For { var, range, body }));
        }
        if input.peek(Token![if]) {
            return condition(input).map(Item::If);
        }
        if let Some(first) = input.call(Attribute::parse_outer)?.first() {
            return Err(misplaced(first));
        }
        if input.peek(Token![let]) {
            let text = "a parameter is named outside of the loops, `let nt = self.nt;`, and is the same for all \
                        tasks; what depends on the variable of a loop is written where it is used";
            return Err(input.error(text));
        }
        if !(input.peek(syn::Ident) && input.peek2(token::Brace)) {
            let text =
                "expected `for`, `if` or a statement: `Name { k }: update tile = A[k, k] => …`";
            return Err(input.error(text));
        }
        let (task, ranges, condition) = statement(input)?;
        // The loops and the condition that stand at the statement itself.
        let mut item = Item::Task(Box::new(task));
        if let Some(condition) = condition {
            let (then, otherwise) = (vec![item], Vec::new());
            item = Item::If(If {
                condition,
                then,
                otherwise,
            });
        }
        for (var, range) in ranges.into_iter().rev() {
            let body = vec![item];
            item = Item::For(For { var, range, body });
        }
        Ok(item)
    }
}

fn condition(input: ParseStream) -> Result<If> {
    input.parse::<Token![if]>()?;
    let condition = input.call(Expr::parse_without_eager_brace)?;
    let then = items(input)?;
    let mut otherwise = Vec::new();
    if input.parse::<Option<Token![else]>>()?.is_some() {
        otherwise = match input.peek(Token![if]) {
            true => vec![self::condition(input).map(Item::If)?],
            false => items(input)?,
        };
    }
    Ok(If {
        condition,
        then,
        otherwise,
    })
}

/// Loops that stand at a statement: variable and range of each, from the outermost.
type Ranges = Vec<(Ident, Expr)>;

/// A statement, the loops and the condition that stand at it.
fn statement(input: ParseStream) -> Result<(Statement, Ranges, Option<Expr>)> {
    let name = input.parse()?;
    let content;
    braced!(content in input);
    let parameters = Punctuated::<Ident, Token![,]>::parse_terminated(&content)?;
    let mut statement = Statement {
        name,
        parameters: parameters.into_iter().collect(),
        accesses: Vec::new(),
        rank: None,
        priority: None,
        body: None,
    };
    let ranges = ranges(input)?;
    let condition = match input.parse::<Option<Token![if]>>()? {
        Some(_) => Some(input.call(Expr::parse_without_eager_brace)?),
        None => None,
    };
    clauses(input, &mut statement)?;
    statement.body = body(input, &statement)?;
    Ok((statement, ranges, condition))
}

/// `for k in 0..nt, m in k..mt`, or nothing.
fn ranges(input: ParseStream) -> Result<Ranges> {
    let mut ranges = Ranges::new();
    if input.parse::<Option<Token![for]>>()?.is_none() {
        return Ok(ranges);
    }
    loop {
        let var = input.parse()?;
        input.parse::<Token![in]>()?;
        ranges.push((var, input.call(Expr::parse_without_eager_brace)?));
        if input.parse::<Option<Token![,]>>()?.is_none() {
            return Ok(ranges);
        }
    }
}

/// `: ACCESS, …, on RANK, priority URGENCY`, or nothing.
fn clauses(input: ParseStream, statement: &mut Statement) -> Result<()> {
    if input.parse::<Option<Token![:]>>()?.is_none() {
        return Ok(());
    }
    loop {
        let word = input.call(Ident::parse_any)?;
        let on_twice = word == "on" && statement.rank.is_some();
        if on_twice || word == "priority" && statement.priority.is_some() {
            let text = format!("`{}` says `{word}` twice: say it once", statement.name);
            return Err(Error::new(word.span(), text));
        }
        match () {
            () if word == "on" => statement.rank = Some(input.parse()?),
            () if word == "priority" => statement.priority = Some(input.parse()?),
            () => statement.accesses.push(access(word, input)?),
        }
        let goes_on = input.parse::<Option<Token![,]>>()?.is_some();
        if !goes_on && (is_word(input, &MODES) || is_word(input, &["on", "priority"])) {
            let next: Ident = input.parse()?;
            let text = format!("a `,` is missing before `{next}`");
            return Err(Error::new(next.span(), text));
        }
        if !goes_on || input.peek(Token![=>]) {
            return Ok(());
        }
    }
}

/// `=> BODY;`, `=> { BODY }`, or the `;` of a statement without a body.
fn body(input: ParseStream, statement: &Statement) -> Result<Option<TokenStream>> {
    if input.parse::<Option<Token![=>]>>()?.is_none() {
        let last = statement.accesses.last();
        let last = last.map_or(TokenStream::new(), |access| access.element.clone());
        ended(input, &last, &statement.name)?;
        return Ok(None);
    }
    Ok(Some(match input.peek(token::Brace) {
        true => {
            let block: Block = input.parse()?;
            input.parse::<Option<Token![;]>>()?;
            block.stmts.iter().map(ToTokens::to_token_stream).collect()
        }
        false => {
            let body: Expr = input.parse()?;
            let end = ended(input, &body.to_token_stream(), &statement.name)?;
            quote!(#body #end)
        }
    }))
}

/// The `;` of a statement. That it is missing is said where it belongs, behind what stands last.
fn ended(input: ParseStream, last: &TokenStream, name: &Ident) -> Result<Token![;]> {
    let is_next = input.peek(syn::Ident) && input.peek2(token::Brace);
    let is_next = is_next || input.is_empty() || input.peek(Token![for]);
    match last.clone().into_iter().last().filter(|_| is_next) {
        None => input.parse(),
        Some(last) => {
            let text = format!("the statement `{name}` ends with `;`");
            Err(Error::new(last.span(), text))
        }
    }
}

fn no_access(mode: &Ident) -> Error {
    let instead = match &*mode.to_string() {
        "write" => " (`write` of sequences is `update` here, or `new` where nothing was before)",
        "in" => " (it is `read` here)",
        "inout" => " (it is `update` here)",
        "out" => " (it is `new` here, or `update` where something was before)",
        _ => "",
    };
    let text = format!(
        "`{mode}` is no access{instead}: a task can `read`, `update`, make `new`, `give` or read `optional` \
         data, be in an `order`, be placed `on` a rank and have a `priority`"
    );
    Error::new(mode.span(), text)
}

/// An access of a flow without subscripts, and what kind its data are of, if that is said.
fn flow(mode: Ident, name: Ident, input: ParseStream) -> Result<Access> {
    let kind = match is_word(input, &["of"]) {
        true => {
            input.parse::<Ident>()?;
            Some(input.parse()?)
        }
        false => None,
    };
    Ok(Access {
        mode,
        element: name.to_token_stream(),
        name: Some(name.clone()),
        family: name,
        subscripts: Vec::new(),
        is_flow: true,
        kind,
    })
}

/// Not `A[i][j]`, as an array of C would have it: what is next are the brackets.
fn expect_one_pair(family: &Ident, input: ParseStream) -> Result<()> {
    let ahead = input.fork();
    let mut pairs = Vec::new();
    while ahead.peek(token::Bracket) {
        pairs.push(ahead.parse::<proc_macro2::Group>()?);
    }
    let [first, _, ..] = &pairs[..] else {
        return Ok(());
    };
    let subscripts: Vec<_> = pairs.iter().map(|pair| pair.stream().to_string()).collect();
    let text = format!(
        "the subscripts of a datum stand in one pair of brackets: `{family}[{}]`",
        subscripts.join(", ")
    );
    Err(Error::new(first.span(), text))
}

fn access(mode: Ident, input: ParseStream) -> Result<Access> {
    if !MODES.iter().any(|known| mode == known) {
        return Err(no_access(&mode));
    }
    let first: Ident = input.parse()?;
    let is_named = input.peek(Token![=]) && !input.peek(Token![=>]);
    if mode == "order" && (is_named || input.peek(token::Bracket)) {
        let text = format!(
            "`order {first}` is a flow without a datum; tasks `read`, `update` and make `new` the data of an \
             `order` family"
        );
        return Err(Error::new(first.span(), text));
    }
    if !is_named && !input.peek(token::Bracket) {
        return flow(mode, first, input);
    }
    let (name, family) = match input.parse::<Option<Token![=]>>()? {
        Some(_) => (Some(first), input.parse()?),
        None => (None, first),
    };
    let group: proc_macro2::Group = input.fork().parse()?;
    expect_one_pair(&family, input)?;
    let content;
    bracketed!(content in input);
    let subscripts = Punctuated::<Expr, Token![,]>::parse_terminated(&content)?;
    let mut element = family.to_token_stream();
    group.to_tokens(&mut element);
    Ok(Access {
        mode,
        name,
        family,
        subscripts: subscripts.into_iter().collect(),
        element,
        is_flow: false,
        kind: None,
    })
}
