//! Told: what an example answers to a command line.

/// Defines what the tests of an example ask it, of its module and its body.
macro_rules! tells {
    ($example:ident, $body:ident) => {
        fn answer(arguments: &str) -> common::cli::Answer {
            let words = std::iter::once(stringify!($example)).chain(arguments.split_whitespace());
            common::cli::answer(&$example::EXAMPLE, words, $example::$body)
        }

        /// The object that it prints.
        fn told(arguments: &str) -> serde_json::Value {
            let answer = answer(&format!("{arguments} --json"));
            let object = serde_json::from_str(&answer.stdout);
            object.unwrap_or_else(|error| panic!("{error}: {answer:?}"))
        }

        /// Each of these is refused in one line, and with status 2.
        fn must_be_refused(lines: &[&str]) {
            for line in lines {
                let told = answer(&format!("{line} --json"));
                assert_eq!((told.status, &*told.stdout), (2, ""), "{line}: {told:?}");
                assert_eq!(told.stderr.lines().count(), 1, "{told:?}");
            }
        }
    };
}
pub(crate) use tells;
