//! Files and pictures of a traced run.
//!
//! A [`Trace`] is what a traced run leaves behind. [`write()`] makes a file of it, of
//! the [`Format`] that the file's extension names: for viewers ([`Format::Perfetto`],
//! [`Format::Paraver`], [`Format::Paje`], [`Format::Chrome`]), or a picture that needs none
//! ([`Format::Svg`], [`Format::Html`]). A [`View`] is a part of a trace: some ranks, some time.
//!
//! # Law
//! A file says what the trace says: as many tasks, the same times to the nanosecond, every arrow with
//! both ends. Two files of one trace are equal to the byte. A cut leaves out, it never shortens.
//! Only pictures merge what is narrower than a pixel.
//!
//! # Elsewhere
//! What was recorded, and why it was not faster: [`dataflow_core::trace`].
//!
//! # Examples
//! ```
//! use dataflow_core::rank::Rank;
//! use dataflow_core::trace::{RankTrace, Slice, Span, Trace};
//! use dataflow_trace::{Format, write_to};
//!
//! let slice = |begin, end| Slice { span: Span { begin, end }, ..Slice::default() };
//! let workers = vec![vec![slice(0, 20), slice(25, 40)], vec![slice(20, 40)]];
//! let rank = RankTrace::new(Rank(0), Span { begin: 0, end: 40 }, workers);
//! let trace = Trace::new("by hand", ["Step"], vec![rank]);
//!
//! let mut file = Vec::new();
//! write_to(&trace, Format::Chrome, &mut file)?;
//! let text = String::from_utf8(file).unwrap();
//! assert_eq!(text.matches(r#""cat":"task""#).count(), 3);
//! # Ok::<(), std::io::Error>(())
//! ```

mod bar;
mod chart;
mod chrome;
mod colour;
mod dot;
mod draw;
mod file;
mod gantt;
mod html;
mod matrix;
mod message;
mod moment;
mod paje;
mod parameter;
mod paraver;
mod perfetto;
mod protobuf;
mod series;
mod sink;
mod svg;
mod text;
mod view;

pub use file::{expect_writable, replace};
pub use view::{UnknownWindow, View, Window};

use dataflow_core::trace::Trace;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// What a file of a trace is.
///
/// # Examples
/// See [`Format::of`], and the [crate's](crate) example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Perfetto's protobuf, for its viewer in the browser: tracks, arrows, counters.
    Perfetto,
    /// Paraver's records (`.prv`), with their labels (`.pcf`) and rows (`.row`) beside them.
    Paraver,
    /// Paje's text, for ViTE and `pj_dump`.
    Paje,
    /// The JSON of Chrome's tracer, for foreign tools and small runs.
    Chrome,
    /// The graph of a small run, for Graphviz.
    Dot,
    /// A Gantt chart that needs no viewer.
    Svg,
    /// A page that explains the run: sentences, the Gantt chart, and where time went.
    Html,
}

impl Format {
    /// Each extension and what it stands for.
    const EXTENSIONS: [(&str, Format); 10] = [
        ("pftrace", Format::Perfetto),
        ("perfetto-trace", Format::Perfetto),
        ("prv", Format::Paraver),
        ("paje", Format::Paje),
        ("trace", Format::Paje),
        ("json", Format::Chrome),
        ("dot", Format::Dot),
        ("gv", Format::Dot),
        ("svg", Format::Svg),
        ("html", Format::Html),
    ];

    /// The format that a path's extension names, if one does.
    ///
    /// # Examples
    /// ```
    /// use dataflow_trace::Format;
    /// use std::path::Path;
    /// assert_eq!(Format::of(Path::new("cholesky.pftrace")), Some(Format::Perfetto));
    /// assert_eq!(Format::of(Path::new("cholesky")), None);
    /// ```
    pub fn of(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?;
        let mut known = Format::EXTENSIONS.into_iter();
        let found = known.find(|(name, _)| name.eq_ignore_ascii_case(extension))?;
        Some(found.1)
    }
}

/// Writes a trace to a file of the format that its extension names.
///
/// # Errors
/// If no format has this extension, or the file cannot be written.
pub fn write(trace: &Trace, path: &Path) -> Result<(), WriteError> {
    View::of(trace).write(path)
}

/// Writes a trace as one file of a format.
///
/// Paraver wants three files; this writes the records, [`write()`] also their labels and rows.
///
/// # Errors
/// If the writer fails, or the format cannot hold so many workers (Paraver: 65 535).
pub fn write_to(trace: &Trace, format: Format, out: &mut dyn io::Write) -> io::Result<()> {
    View::of(trace).write_to(format, out)
}

/// Draws several runs one below the other, each under its name, on one axis of time, as an SVG.
///
/// # Errors
/// If the writer fails.
///
/// # Examples
/// ```
/// use dataflow_core::rank::Rank;
/// use dataflow_core::trace::{RankTrace, Slice, Span, Trace};
/// let run = |end| {
///     let slice = Slice { span: Span { begin: 0, end }, ..Slice::default() };
///     let rank = RankTrace::new(Rank(0), slice.span, vec![vec![slice]]);
///     Trace::new("step", ["Step"], vec![rank])
/// };
/// let mut file = Vec::new();
/// dataflow_trace::write_beside(&[("before", &run(40)), ("after", &run(20))], &mut file)?;
/// assert_eq!(String::from_utf8(file).unwrap().matches(r#"r0w0">"#).count(), 2);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn write_beside(runs: &[(&str, &Trace)], out: &mut dyn io::Write) -> io::Result<()> {
    svg::write_beside(runs, out)
}

impl View<'_> {
    /// Writes what is seen to a file of the format that its extension names. A file that was there is
    /// replaced as a whole, once the new one is: no reader sees a part of it.
    ///
    /// # Errors
    /// If no format has this extension, nothing of the run is in the window, or the file cannot be written;
    /// what was there stays.
    pub fn write(&self, path: &Path) -> Result<(), WriteError> {
        let Some(format) = Format::of(path) else {
            return Err(WriteError::Extension(path.to_path_buf()));
        };
        let refused = |fault| WriteError::File(path.to_path_buf(), fault);
        self.expect_within().map_err(refused)?;
        let written = |path: &Path, writer: FormatWriter| {
            let made = replace(path, |mut file| writer(self, &mut file));
            made.map_err(|fault| WriteError::File(path.to_path_buf(), fault))
        };
        written(path, format.writer())?;
        if format == Format::Paraver {
            written(&path.with_extension("pcf"), paraver::labels)?;
            written(&path.with_extension("row"), paraver::rows)?;
        }
        Ok(())
    }

    /// Writes what is seen as one file of a format; of Paraver's three, the records.
    ///
    /// # Errors
    /// If nothing of the run is in the window ([`is_beyond`](View::is_beyond)), the writer fails, or the
    /// format cannot hold so many workers (Paraver: 65 535).
    pub fn write_to(&self, format: Format, out: &mut dyn io::Write) -> io::Result<()> {
        self.expect_within()?;
        format.writer()(self, out)
    }
}

type FormatWriter = fn(&View<'_>, &mut dyn io::Write) -> io::Result<()>;

impl Format {
    fn writer(self) -> FormatWriter {
        match self {
            Format::Perfetto => perfetto::write,
            Format::Paraver => paraver::write,
            Format::Paje => paje::write,
            Format::Chrome => chrome::write,
            Format::Dot => dot::write,
            Format::Svg => svg::write,
            Format::Html => html::write,
        }
    }
}

/// Why a trace was not written.
///
/// # Examples
/// ```
/// use dataflow_core::trace::Trace;
/// use dataflow_trace::WriteError;
/// use std::path::Path;
///
/// let refused = dataflow_trace::write(&Trace::default(), Path::new("run.txt")).unwrap_err();
/// assert!(matches!(&refused, WriteError::Extension(path) if path == Path::new("run.txt")));
/// let text = "run.txt: no trace format has this extension (known: .pftrace, ";
/// assert!(refused.to_string().starts_with(text));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// No format has the extension of this path.
    Extension(PathBuf),
    /// This file could not be written.
    File(PathBuf, io::Error),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Extension(path) => {
                let known = Format::EXTENSIONS.map(|(name, _)| format!(".{name}"));
                let path = path.display();
                write!(
                    f,
                    "{path}: no trace format has this extension (known: {})",
                    known.join(", ")
                )
            }
            WriteError::File(path, fault) => write!(f, "{}: {fault}", path.display()),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Extension(_) => None,
            WriteError::File(_, fault) => Some(fault),
        }
    }
}

/// The example of the README, compiled and run like those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
