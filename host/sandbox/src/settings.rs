//! Settings a guest may read, and secrets it may use without ever seeing them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderName;
use sha2::Sha256;

use crate::outbound::Origin;

/// What `config.get` answers for one job: the keys that both its manifest and the operator name.
#[derive(Clone, Default)]
pub struct Settings {
    /// Values that are given as they are.
    pub values: Arc<BTreeMap<String, String>>,
    /// Secrets, by key.
    pub secrets: Arc<BTreeMap<String, Secret>>,
    /// Random, new for every attempt: placeholders are made from it, so that nobody can guess another attempt's.
    pub placeholder_key: [u8; 32],
}

/// A secret with the one place it may go to.
#[derive(Clone)]
pub struct Secret {
    /// What it is.
    pub value: SecretText,
    /// Where it may go: an https origin.
    pub origin: Origin,
    /// The one header it may stand in.
    pub header: HeaderName,
}

/// A text that no message shows.
#[derive(Clone)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps it.
    pub fn new(text: String) -> SecretText {
        SecretText(text)
    }

    /// The text itself, for the one place that puts it onto the wire.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*** for {} in {}", self.origin, self.header)
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets: Vec<&String> = self.secrets.keys().collect();
        f.debug_struct("Settings").field("values", &self.values).field("secrets", &secrets).finish_non_exhaustive()
    }
}

/// A header's value with its secrets is longer than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// What every placeholder begins with.
const PLACEHOLDER: &str = "leasehold-secret-";

impl Settings {
    /// The value, or the secret's placeholder.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        if self.secrets.contains_key(key) {
            return Some(self.placeholder(key));
        }
        self.values.get(key).cloned()
    }

    /// The header's value as it goes onto the wire: placeholders of secrets that were granted for this header towards this
    /// origin are replaced, all others stay as they are. None where nothing was.
    ///
    /// # Errors
    ///
    /// [`TooLong`] when it would have more than `most` bytes: a short placeholder may stand for a long secret many times.
    pub(crate) fn reveal(
        &self,
        origin: &Origin,
        header: &HeaderName,
        value: &str,
        most: usize,
    ) -> Result<Option<String>, TooLong> {
        if !value.contains(PLACEHOLDER) {
            return Ok(None);
        }
        let granted = self.secrets.iter().filter(|(_, secret)| secret.origin == *origin && secret.header == *header);
        let mut revealed = value.to_owned();
        for (key, secret) in granted {
            let (placeholder, secret) = (self.placeholder(key), secret.value.reveal());
            let times = revealed.matches(&placeholder).count();
            if revealed.len() - times * placeholder.len() + times * secret.len() > most {
                return Err(TooLong);
            }
            revealed = revealed.replace(&placeholder, secret);
        }
        Ok((revealed != value).then_some(revealed))
    }

    fn placeholder(&self, key: &str) -> String {
        // Every length of key is valid for HMAC.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.placeholder_key).expect("HMAC takes any key");
        mac.update(key.as_bytes());
        let digits: String = mac.finalize().into_bytes()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PLACEHOLDER}{digits}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(placeholder_key: [u8; 32]) -> Settings {
        let secret = Secret {
            value: SecretText::new("hunter2".to_owned()),
            origin: "https://api.example.com".parse().expect("an origin"),
            header: http::header::AUTHORIZATION,
        };
        Settings {
            values: Arc::new([("region".to_owned(), "eu".to_owned())].into()),
            secrets: Arc::new([("TOKEN".to_owned(), secret)].into()),
            placeholder_key,
        }
    }

    #[test]
    fn a_secret_is_read_as_a_placeholder_that_nobody_can_guess() {
        let (one, other) = (settings([1; 32]), settings([2; 32]));
        let placeholder = one.get("TOKEN").expect("it is granted");
        assert!(placeholder.starts_with(PLACEHOLDER) && placeholder.len() == PLACEHOLDER.len() + 32);
        assert_ne!(Some(placeholder), other.get("TOKEN"));
        assert_eq!((one.get("region").as_deref(), one.get("other")), (Some("eu"), None));
        assert!(!format!("{one:?} {:?}", one.secrets["TOKEN"]).contains("hunter2"));
    }

    #[test]
    fn a_placeholder_is_replaced_in_its_header_towards_its_origin_only() {
        let settings = settings([1; 32]);
        let origin = |text: &str| text.parse::<Origin>().expect("an origin");
        let value = format!("Bearer {}", settings.get("TOKEN").expect("it is granted"));
        let revealed = |to: &str, header| settings.reveal(&origin(to), &header, &value, 100).expect("it is short");
        let (authorization, cookie) = (http::header::AUTHORIZATION, http::header::COOKIE);
        assert_eq!(revealed("https://api.example.com", authorization.clone()).as_deref(), Some("Bearer hunter2"));
        for elsewhere in ["https://api.example.com:8443", "http://api.example.com", "https://example.com"] {
            assert_eq!(revealed(elsewhere, authorization.clone()), None, "{elsewhere}");
        }
        assert_eq!(revealed("https://api.example.com", cookie), None);
        let guessed = format!("{PLACEHOLDER}{}", "0".repeat(32));
        assert_eq!(settings.reveal(&origin("https://api.example.com"), &authorization, &guessed, 100), Ok(None));
    }

    #[test]
    fn a_value_is_bounded_as_it_goes_onto_the_wire() {
        let settings = settings([1; 32]);
        let origin = "https://api.example.com".parse().expect("an origin");
        let value = settings.get("TOKEN").expect("it is granted").repeat(3);
        let revealed = |most| settings.reveal(&origin, &http::header::AUTHORIZATION, &value, most);
        assert_eq!(revealed(21), Ok(Some("hunter2".repeat(3))));
        assert_eq!(revealed(20), Err(TooLong));
    }
}
