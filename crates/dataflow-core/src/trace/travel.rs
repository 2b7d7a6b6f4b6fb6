//! Travel: a rank's trace as bytes, to be sent to the rank that merges all of them.
//!
//! The receiver is the same program; what it needs to show tasks it has itself.

use super::{Came, Fate, FeedingTask, Posted, RankTrace, Slice, Span, Trace, WorkerTrace};
use crate::rank::Rank;
use crate::words::counted;

impl Trace {
    /// The traces of its ranks as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = TraceWriter(Vec::new());
        to.list(self.name.as_bytes(), |to, byte| to.0.push(*byte));
        to.number(self.number);
        to.number(self.epoch);
        to.number(self.clock_error);
        to.list(&self.ranks, TraceWriter::rank);
        to.0
    }

    /// What another rank recorded of the same run, from its [bytes](Self::to_bytes).
    ///
    /// # Errors
    /// If bytes are not those of a trace, or are those of another run.
    pub fn of_another(&self, bytes: &[u8]) -> Result<Trace, String> {
        let wrong = || {
            format!(
                "{} that are not those of a trace",
                counted(bytes.len(), "byte")
            )
        };
        let part = self.read(bytes).ok_or_else(wrong)?;
        let run = |of: &Trace| format!("run {} ({:?})", of.number, of.name);
        match (part.number, &part.name) == (self.number, &self.name) {
            true => Ok(part),
            false => Err(format!(
                "the trace of {}, which is no part of {}",
                run(&part),
                run(self)
            )),
        }
    }

    fn read(&self, bytes: &[u8]) -> Option<Trace> {
        let mut from = TraceReader(bytes);
        let name = String::from_utf8(from.list(TraceReader::byte)?).ok()?;
        let [number, epoch, clock_error] = [from.number()?, from.number()?, from.number()?];
        let ranks = from.list(TraceReader::rank)?;
        from.0.is_empty().then(|| Trace {
            name,
            parameters: self.parameters.clone(),
            classes: self.classes.clone(),
            ranks,
            epoch,
            clock_error,
            is_across: self.is_across,
            number,
            text: self.text.clone(),
            ..Trace::default()
        })
    }

    /// The same run on all ranks: this trace, and those of others as [bytes](Self::to_bytes).
    ///
    /// # Errors
    /// As [`of_another`](Self::of_another).
    pub fn joined<'b>(self, others: impl IntoIterator<Item = &'b [u8]>) -> Result<Trace, String> {
        let others = others.into_iter().map(|bytes| self.of_another(bytes));
        let mut parts = others.collect::<Result<Vec<_>, _>>()?;
        parts.push(self);
        Ok(Trace::of_ranks(parts))
    }
}

struct TraceWriter(Vec<u8>);

impl TraceWriter {
    fn number(&mut self, number: u64) {
        // Seven bits a byte, the lowest first; the eighth says that more come.
        let mut rest = number;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
    }

    fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| one(self, item));
    }

    fn span(&mut self, span: &Span) {
        self.number(span.begin);
        self.number(span.length());
    }

    fn rank(&mut self, of: &RankTrace) {
        self.number(of.rank.0.into());
        self.span(&of.span);
        self.number(of.missing);
        self.number(of.undone);
        self.list(&of.workers, |to, worker| {
            to.number(worker.slices.len() as u64);
            to.list(&worker.visits, TraceWriter::span);
        });
        self.list(&of.slices, TraceWriter::slice);
        self.list(&of.posted, |to, posted| {
            to.message([posted.task, posted.at, posted.to.0.into(), posted.bytes]);
            to.later(posted.at, posted.left);
        });
        self.list(&of.came, |to, came| {
            to.message([came.task, came.at, came.from.0.into(), came.bytes]);
            for stamp in [came.heard, came.asked, came.there] {
                to.earlier(came.at, stamp);
            }
        });
        self.list(&of.inputs, |to, input| to.number((*input).into()));
        self.list(&of.sources, |to, source| {
            to.number(source.task);
            to.number(source.rank.into());
        });
        let wide: Vec<_> = of.wide.iter().collect();
        self.list(&wide, |to, (task, name)| {
            to.number(**task);
            to.list(name.as_bytes(), |to, byte| to.0.push(*byte));
        });
    }

    /// A time after another, if it is known.
    fn later(&mut self, than: u64, time: Option<u64>) {
        self.number(time.map_or(0, |time| 1 + time.saturating_sub(than)));
    }

    /// A time before another, if it is known.
    fn earlier(&mut self, than: u64, time: Option<u64>) {
        self.number(time.map_or(0, |time| 1 + than.saturating_sub(time)));
    }

    fn message(&mut self, numbers: [u64; 4]) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn slice(&mut self, slice: &Slice) {
        let fate = match slice.fate {
            Fate::Ran => 0,
            Fate::Skipped => 1,
            Fate::Failed => 2,
        };
        let flags = fate | u64::from(slice.stolen) << 2 | u64::from(slice.copied) << 3;
        self.number(slice.task);
        self.span(&slice.span);
        self.number(slice.class.into());
        self.number(slice.worker.into());
        self.number(slice.ready);
        self.number(flags);
    }
}

impl RankTrace {
    /// Whether workers have all slices, and slices all sources, each in its place.
    fn is_whole(&self) -> bool {
        let (slices, inputs) = (self.slices.len(), &self.inputs);
        let of_workers = self.workers.last().map_or(0, |worker| worker.slices.end);
        let last = inputs.last().copied().unwrap_or_default();
        of_workers == slices
            && (inputs.len() == slices + 1 || inputs.is_empty())
            && inputs.is_sorted()
            && u64::from(last) <= self.sources.len() as u64
    }
}

struct TraceReader<'b>(&'b [u8]);

impl TraceReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn narrow<N: TryFrom<u64>>(&mut self) -> Option<N> {
        self.number()?.try_into().ok()
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let n: usize = self.narrow()?;
        // Whatever it is, it takes a byte or more.
        if n > self.0.len() {
            return None;
        }
        (0..n).map(|_| one(self)).collect()
    }

    fn span(&mut self) -> Option<Span> {
        let begin = self.number()?;
        let end = begin.checked_add(self.number()?)?;
        Some(Span { begin, end })
    }

    fn rank(&mut self) -> Option<RankTrace> {
        let (rank, span) = (Rank(self.narrow()?), self.span()?);
        let (missing, undone) = (self.number()?, self.number()?);
        let trace = RankTrace {
            rank,
            span,
            missing,
            undone,
            workers: self.workers()?,
            slices: self.list(TraceReader::slice)?,
            posted: self.list(TraceReader::posted)?,
            came: self.list(TraceReader::came)?,
            inputs: self.list(TraceReader::narrow)?,
            sources: self.list(TraceReader::source)?,
            wide: self.list(TraceReader::wide)?.into_iter().collect(),
            clock_ahead: 0,
        };
        trace.is_whole().then_some(trace)
    }

    fn workers(&mut self) -> Option<Vec<WorkerTrace>> {
        let mut first = 0_usize;
        self.list(|from| {
            let n: usize = from.narrow()?;
            let slices = first..first.checked_add(n)?;
            first = slices.end;
            let visits = from.list(TraceReader::span)?;
            Some(WorkerTrace { slices, visits })
        })
    }

    fn posted(&mut self) -> Option<Posted> {
        let [task, at, to, bytes] = self.message()?;
        let to = Rank(to.try_into().ok()?);
        let left = self.stamp(|later| at.checked_add(later))?;
        Some(Posted {
            task,
            at,
            to,
            bytes,
            left,
        })
    }

    fn came(&mut self) -> Option<Came> {
        let [task, at, from, bytes] = self.message()?;
        let from = Rank(from.try_into().ok()?);
        let mut before = || self.stamp(|before| at.checked_sub(before));
        let (heard, asked, there) = (before()?, before()?, before()?);
        Some(Came {
            task,
            at,
            from,
            bytes,
            heard,
            asked,
            there,
        })
    }

    fn source(&mut self) -> Option<FeedingTask> {
        let (task, rank) = (self.number()?, self.narrow()?);
        Some(FeedingTask { task, rank })
    }

    fn wide(&mut self) -> Option<(u64, String)> {
        let task = self.number()?;
        let name = self.list(TraceReader::byte)?;
        Some((task, String::from_utf8(name).ok()?))
    }

    fn message(&mut self) -> Option<[u64; 4]> {
        Some([
            self.number()?,
            self.number()?,
            self.number()?,
            self.number()?,
        ])
    }

    /// A time by how far it is from another, if it was known.
    fn stamp(&mut self, time: impl Fn(u64) -> Option<u64>) -> Option<Option<u64>> {
        match self.number()?.checked_sub(1) {
            Some(apart) => time(apart).map(Some),
            None => Some(None),
        }
    }

    fn slice(&mut self) -> Option<Slice> {
        let (task, span) = (self.number()?, self.span()?);
        let (class, worker) = (self.narrow()?, self.narrow()?);
        let (ready, flags) = (self.number()?, self.number()?);
        let fate = match flags & 3 {
            0 => Fate::Ran,
            1 => Fate::Skipped,
            _ => Fate::Failed,
        };
        Some(Slice {
            task,
            span,
            ready,
            class,
            worker,
            fate,
            stolen: flags & 4 != 0,
            copied: flags & 8 != 0,
            ..Slice::default()
        })
    }
}
