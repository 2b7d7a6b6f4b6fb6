//! The token: what a process must know to be taken in.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::error::Error;
use std::fmt;
use std::io;
use std::str::FromStr;

/// Thirty-two random bytes that all processes of a job know and nobody else.
///
/// It never travels: who knows it proves so by a keyed hash (HMAC with SHA-256, RFC 2104) of what
/// the other end has just made up.
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
    /// Its length.
    pub const BYTES: usize = 32;

    /// A new one, from the operating system.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn random() -> io::Result<Self> {
        nonce().map(Token)
    }

    /// What only somebody who knows the token can say of a text.
    pub(super) fn proof(&self, text: &[&[u8]]) -> [u8; PROOF] {
        self.hash(text).finalize().into_bytes().into()
    }

    /// Whether somebody who said this of a text knows the token; how long it takes to answer tells
    /// nothing of how much of it is right.
    pub(super) fn is_proved_by(&self, proof: &[u8; PROOF], text: &[&[u8]]) -> bool {
        self.hash(text).verify_slice(proof).is_ok()
    }

    fn hash(&self, text: &[&[u8]]) -> Hmac<Sha256> {
        let mut block = [0; 64];
        block[..Self::BYTES].copy_from_slice(&self.0);
        let mut hash = Hmac::<Sha256>::new(&block.into());
        text.iter().for_each(|part| hash.update(part));
        hash
    }
}

/// The length of a proof.
pub(super) const PROOF: usize = 32;

/// So many bytes that nobody can foresee.
pub(super) fn nonce() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|fault| io::Error::other(fault.to_string()))?;
    Ok(bytes)
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

/// A text that is no token. It does not say which: it may have been one but for a digit.
///
/// # Examples
/// ```
/// use dataflow_mpi::transport::tcp::Token;
/// let refused = "secret".parse::<Token>().unwrap_err();
/// assert_eq!(refused.to_string(), "a token has 64 hexadecimal digits");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoToken;

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token has 64 hexadecimal digits")
    }
}

impl Error for NoToken {}

impl FromStr for Token {
    type Err = NoToken;

    /// Reads 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, NoToken> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Self::BYTES {
            return Err(NoToken);
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| (digit as char).to_digit(16).ok_or(NoToken);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Token(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2 (its key is shorter; zeros behind it do not change the hash).
    #[test]
    fn a_proof_is_the_hash_of_the_standard() {
        let mut key = [0; Token::BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let proof = Token(key).proof(&[b"what do ya want ", b"for nothing?"]);
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(Token(proof).to_string(), expected);
    }

    #[test]
    fn no_other_proof_and_no_other_text_is_accepted() {
        let token = Token([7; Token::BYTES]);
        let text: [&[u8]; 2] = [b"hello", b"nonce"];
        let proof = token.proof(&text);
        assert!(token.is_proved_by(&proof, &text));
        assert!(!token.is_proved_by(&proof, &[b"hello"]));
        for bit in 0..8 * PROOF {
            let mut other = proof;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!token.is_proved_by(&other, &text), "bit {bit}");
        }
    }
}
