//! The token: what a process must know to be taken in.

use std::fmt;
use std::io;
use std::str::FromStr;

/// Thirty-two random bytes that all processes of a job know and nobody else.
///
/// Printed as 64 hexadecimal digits; `Debug` shows nothing of it.
///
/// # Examples
/// ```
/// use dataflow_mpi::transport::tcp::Token;
/// let token = Token::random()?;
/// assert_eq!(token.to_string().parse(), Ok(token));
/// assert!("12345".parse::<Token>().is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; Token::BYTES]);

impl Token {
    /// Its length on the wire.
    pub const BYTES: usize = 32;

    /// A new one, from the operating system.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).map_err(|fault| io::Error::other(fault.to_string()))?;
        Ok(Token(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// Whether somebody knows it, in a time that does not tell how much of it is right.
    pub(super) fn is_known_to(&self, said: &[u8; Self::BYTES]) -> bool {
        let differing = self.0.iter().zip(said).map(|(own, said)| own ^ said);
        std::hint::black_box(differing.fold(0, |all, byte| all | byte)) == 0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || "a token has 64 hexadecimal digits".to_string();
        let digits = text.as_bytes();
        if digits.len() != 2 * Self::BYTES {
            return Err(fault());
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16).ok_or_else(fault);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Token(bytes))
    }
}
