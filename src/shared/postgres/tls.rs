//! Whom a connection trusts, and who this machine is: TLS as libpq has it.
//!
//! webpki verifies the chain of a certificate. This module adds what OpenSSL, and so libpq, takes beside that: a server's
//! certificate that is itself one of the roots, certificates of X.509 v1, host names in the common name, and P-521. It does
//! not know where the options come from.

use std::{fs, io::BufReader, path::Path, sync::Arc};

use p521::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{
        WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
        verify_tls13_signature_with_raw_key,
    },
    pki_types::{
        AlgorithmIdentifier, CertificateDer, InvalidSignature, PrivateKeyDer, ServerName,
        SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime, alg_id, pem::PemObject,
    },
    server::ParsedCertificate,
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::{
    Certificate, Version,
    der::{
        AnyRef, Decode, Encode, Reader, SliceReader,
        oid::db::{
            rfc4519::COMMON_NAME,
            rfc5280::{ANY_EXTENDED_KEY_USAGE, ID_KP_SERVER_AUTH},
        },
    },
    ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName, name::GeneralName},
    name::Name,
};

use crate::error::{Error, Result};

/// The certificates that vouch for a server.
#[derive(Debug, PartialEq)]
pub(super) enum Roots {
    /// Nobody is asked: any certificate is trusted.
    Any,
    /// Those that Mozilla ships.
    Mozilla,
    /// Those that the system trusts.
    System,
    /// Those in a file.
    File(String),
}

/// The files of this machine's certificate and of its key.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The requirements that an address has for TLS: which certificates are trusted, and what is compared.
#[derive(Debug)]
pub(super) struct TlsOptions {
    pub(super) roots: Roots,
    /// True if the certificate must be for the host that the address names.
    pub(super) checks_host: bool,
    pub(super) identity: Option<Identity>,
    pub(super) sends_host: bool,
    /// True if TLS begins at once, without a question to the server, which PostgreSQL knows by the protocol's name.
    pub(super) is_direct: bool,
    pub(super) versions: &'static [&'static SupportedProtocolVersion],
}

/// Both versions of TLS that are safe.
pub(super) const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

impl TlsOptions {
    /// # Errors
    /// [`Error::InvalidConfig`]: a file cannot be read, or holds something else.
    pub(super) fn client(&self) -> Result<ClientConfig> {
        let mut provider = ring::default_provider();
        let algorithms = with_p521(provider.signature_verification_algorithms);
        provider.signature_verification_algorithms = algorithms;
        let keys = provider.key_provider;
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(self.versions)
            .map_err(|error| invalid(format!("TLS: {error}")))?;
        let verifier = Verifier { algorithms, trusted: self.roots.load()?, checks_host: self.checks_host };
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = keys.load_private_key(identity.read_key()?).map_err(|error| {
                    let Identity { key, .. } = identity;
                    invalid(format!("sslkey, {key}: {error}; use a key of RSA, P-256, P-384 or Ed25519"))
                })?;
                // Not `CertifiedKey::from_der`, which reads no certificate of X.509 v1.
                let certified = CertifiedKey::new(certificates("sslcert", &identity.certificate)?, key);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        config.enable_sni = self.sends_host;
        if self.is_direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(config)
    }
}

fn invalid(reason: String) -> Error {
    Error::InvalidConfig { reason: format!("shared database: {reason}") }
}

impl Roots {
    /// `None`: any certificate is trusted.
    fn load(&self) -> Result<Option<Trusted>> {
        let mut anchors = RootCertStore::empty();
        let mut roots = Vec::new();
        match self {
            Roots::Any => return Ok(None),
            Roots::Mozilla => anchors.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Roots::System => {
                roots = rustls_native_certs::load_native_certs().certs;
                anchors.add_parsable_certificates(roots.iter().cloned());
                if anchors.is_empty() {
                    let reason = "sslrootcert=system: this system has no roots; install them (ca-certificates), or name their \
                                  file in $SSL_CERT_FILE or in sslrootcert";
                    return Err(invalid(reason.into()));
                }
            }
            Roots::File(path) => {
                roots = certificates("sslrootcert", path)?;
                for root in &roots {
                    anchors.add(root.clone()).map_err(|error| invalid(format!("sslrootcert, {path}: {error}")))?;
                }
            }
        }
        Ok(Some(Trusted { anchors, roots }))
    }
}

/// Reads the certificates of a file that an option names.
fn certificates(option: &str, path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let failed = |error: String| invalid(format!("{option}, {path}: {error}"));
    let file = fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let found = CertificateDer::pem_reader_iter(BufReader::new(file)).collect::<std::result::Result<Vec<_>, _>>();
    let found = found.map_err(|error| failed(error.to_string()))?;
    match found.is_empty() {
        true => Err(failed("the file has no certificate in PEM".into())),
        false => Ok(found),
    }
}

impl Identity {
    fn read_key(&self) -> Result<PrivateKeyDer<'static>> {
        let path = &self.key;
        let failed = |error: String| invalid(format!("sslkey, {path}: {error}"));
        let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
        if is_open(Path::new(path)) {
            return Err(failed("others may read the file; `chmod 600` it".into()));
        }
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
            match String::from_utf8_lossy(&text).contains("ENCRYPTED") {
                true => failed(
                    "it has a password, which is not supported; `openssl pkey -in FILE -out NEW` writes it without"
                        .into(),
                ),
                false => failed(format!("no key in PEM: {error}")),
            }
        })
    }
}

/// Returns true if others than the owner may read a file with a secret. The group may read one of root, as that of a
/// group of servers is.
#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|file| file.mode() & if file.uid() == 0 { 0o027 } else { 0o077 } != 0)
}

#[cfg(not(unix))]
fn is_open(_: &Path) -> bool {
    false
}

/// Verifies the certificates of servers.
#[derive(Debug)]
struct Verifier {
    algorithms: WebPkiSupportedAlgorithms,
    /// `None`: any certificate is trusted.
    trusted: Option<Trusted>,
    checks_host: bool,
}

#[derive(Debug)]
struct Trusted {
    anchors: RootCertStore,
    /// The same as whole certificates. None for Mozilla's, which are only keys and names.
    roots: Vec<CertificateDer<'static>>,
}

type Verified<T> = std::result::Result<T, rustls::Error>;

/// An error about a certificate that says what to do.
fn refused(reason: String) -> rustls::Error {
    let reason: Box<dyn std::error::Error + Send + Sync> = reason.into();
    rustls::Error::Other(OtherError(Arc::from(reason)))
}

const UNREADABLE: rustls::Error = rustls::Error::InvalidCertificate(CertificateError::BadEncoding);

fn read(certificate: &CertificateDer<'_>) -> Verified<Certificate> {
    Certificate::from_der(certificate).map_err(|_| UNREADABLE)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Verified<ServerCertVerified> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let parsed = ParsedCertificate::try_from(certificate);
        if trusted.roots.contains(certificate) {
            check_root(&read(certificate)?, now)?;
        } else if let Ok(parsed) = &parsed {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(parsed, &trusted.anchors, intermediates, now, algorithms)
                .map_err(explain)?;
        } else {
            self.check_version_1(certificate, &trusted.roots, now)?;
        }
        if self.checks_host {
            let named = match &parsed {
                Ok(parsed) => verify_server_name(parsed, host),
                Err(_) => Err(CertificateError::NotValidForName.into()),
            };
            named.or_else(|error| if has_common_name(&read(certificate)?, host) { Ok(()) } else { Err(error) })?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        if ParsedCertificate::try_from(certificate).is_ok() {
            return verify_tls12_signature(message, certificate, signed, &self.algorithms);
        }
        let key = read(certificate)?.tbs_certificate.subject_public_key_info;
        let kind = contents(&key.algorithm)?;
        let of_scheme = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let fitting = of_scheme.and_then(|(_, all)| all.iter().find(|one| is(one.public_key_alg_id(), &kind)));
        let is_valid = fitting.is_some_and(|algorithm| {
            algorithm.verify_signature(key.subject_public_key.raw_bytes(), message, signed.signature()).is_ok()
        });
        match is_valid {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        if ParsedCertificate::try_from(certificate).is_ok() {
            return verify_tls13_signature(message, certificate, signed, &self.algorithms);
        }
        let key = read(certificate)?.tbs_certificate.subject_public_key_info;
        let key = SubjectPublicKeyInfoDer::from(key.to_der().map_err(|_| UNREADABLE)?);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl Verifier {
    /// Verifies a certificate of X.509 v1, as `openssl x509 -req` makes them: it is signed by one of the roots.
    fn check_version_1(
        &self,
        certificate: &CertificateDer<'_>,
        roots: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Verified<()> {
        let read_certificate = read(certificate)?;
        if read_certificate.tbs_certificate.version != Version::V1 {
            return Err(UNREADABLE);
        }
        check_time(&read_certificate, now)?;
        let roots = roots.iter().filter_map(|root| Certificate::from_der(root).ok());
        let mut issuers = roots.filter(|root| root.tbs_certificate.subject == read_certificate.tbs_certificate.issuer);
        let signed = signed_part(certificate)?;
        match issuers.find(|root| may_sign(root) && self.has_signed(root, &read_certificate, signed)) {
            Some(root) => check_time(&root, now),
            None => Err(refused(
                "the server's certificate is one of X.509 v1, and is signed by none of the roots of sslrootcert itself; \
                 name the certificate of the authority that signed it there, or have it signed with extensions \
                 (`openssl x509 -req -extfile`)"
                    .into(),
            )),
        }
    }

    /// Returns true if a certificate is signed with the key of a root.
    fn has_signed(&self, root: &Certificate, certificate: &Certificate, signed: &[u8]) -> bool {
        let key = &root.tbs_certificate.subject_public_key_info;
        let (Ok(key_kind), Ok(kind)) = (contents(&key.algorithm), contents(&certificate.signature_algorithm)) else {
            return false;
        };
        let (public, signature) = (key.subject_public_key.raw_bytes(), certificate.signature.raw_bytes());
        certificate.signature_algorithm == certificate.tbs_certificate.signature
            && self.algorithms.all.iter().any(|algorithm| {
                is(algorithm.public_key_alg_id(), &key_kind)
                    && is(algorithm.signature_alg_id(), &kind)
                    && algorithm.verify_signature(public, signed, signature).is_ok()
            })
    }
}

/// Checks a server's certificate that is one of the roots.
fn check_root(certificate: &Certificate, now: UnixTime) -> Verified<()> {
    check_time(certificate, now)?;
    let certificate = &certificate.tbs_certificate;
    if certificate.subject != certificate.issuer {
        return Err(refused(
            "the server's certificate is in sslrootcert itself, and is signed by somebody else; name the certificate of \
             that authority instead"
                .into(),
        ));
    }
    match certificate.get::<ExtendedKeyUsage>() {
        Ok(None) => Ok(()),
        Ok(Some((_, ExtendedKeyUsage(usages))))
            if usages.iter().any(|usage| [ID_KP_SERVER_AUTH, ANY_EXTENDED_KEY_USAGE].contains(usage)) =>
        {
            Ok(())
        }
        _ => Err(CertificateError::InvalidPurpose.into()),
    }
}

/// Returns true if a root may sign certificates.
fn may_sign(root: &Certificate) -> bool {
    let root = &root.tbs_certificate;
    match root.get::<BasicConstraints>() {
        Ok(Some((_, constraints))) => constraints.ca,
        Ok(None) => root.version == Version::V1,
        Err(_) => false,
    }
}

fn check_time(certificate: &Certificate, now: UnixTime) -> Verified<()> {
    let validity = &certificate.tbs_certificate.validity;
    let now = now.as_secs();
    if now < validity.not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet.into());
    }
    match now > validity.not_after.to_unix_duration().as_secs() {
        true => Err(CertificateError::Expired.into()),
        false => Ok(()),
    }
}

/// The bytes of a certificate that are signed.
fn signed_part<'a>(certificate: &'a CertificateDer<'_>) -> Verified<&'a [u8]> {
    let inside = AnyRef::from_der(certificate).map_err(|_| UNREADABLE)?;
    let mut reader = SliceReader::new(inside.value()).map_err(|_| UNREADABLE)?;
    reader.tlv_bytes().map_err(|_| UNREADABLE)
}

/// The contents of the sequence that identifies an algorithm.
fn contents(algorithm: &impl Encode) -> Verified<Vec<u8>> {
    let bytes = algorithm.to_der().map_err(|_| UNREADABLE)?;
    Ok(AnyRef::from_der(&bytes).map_err(|_| UNREADABLE)?.value().to_vec())
}

fn is(algorithm: AlgorithmIdentifier, contents: &[u8]) -> bool {
    algorithm.as_ref() == contents
}

/// Returns true if a certificate names no host of this kind but in its subject, and that is the one, as RFC 6125 allows and
/// libpq does.
fn has_common_name(certificate: &Certificate, host: &ServerName<'_>) -> bool {
    let certificate = &certificate.tbs_certificate;
    let is_name = matches!(host, ServerName::DnsName(_));
    let names = match certificate.get::<SubjectAltName>() {
        Ok(names) => names.map(|(_, SubjectAltName(names))| names).unwrap_or_default(),
        Err(_) => return false,
    };
    let has_names = names.iter().any(|name| match name {
        GeneralName::DnsName(_) => is_name,
        GeneralName::IpAddress(_) => !is_name,
        _ => false,
    });
    !has_names && common_name(&certificate.subject).is_some_and(|name| fits(&name, &host.to_str()))
}

/// The first common name in the name of a subject.
fn common_name(subject: &Name) -> Option<String> {
    let attributes = subject.0.iter().flat_map(|part| part.0.iter());
    let name = attributes.into_iter().find(|attribute| attribute.oid == COMMON_NAME)?;
    String::from_utf8(name.value.value().to_vec()).ok()
}

/// Returns true if a pattern is the name of a host. A star stands for its first label.
fn fits(pattern: &str, host: &str) -> bool {
    let of_label = pattern.strip_prefix("*.").zip(host.split_once('.'));
    pattern.eq_ignore_ascii_case(host)
        || of_label.is_some_and(|(pattern, (label, rest))| !label.is_empty() && pattern.eq_ignore_ascii_case(rest))
}

/// Says what to do about a chain that does not verify.
fn explain(error: rustls::Error) -> rustls::Error {
    let rustls::Error::InvalidCertificate(reason) = &error else { return error };
    match reason {
        // An authority of the same name, with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => refused(
            "the server's certificate is signed by nobody who is trusted; name the file with the certificate of its \
             authority in sslrootcert"
                .into(),
        ),
        CertificateError::Other(reason) if format!("{reason:?}").contains("CaUsedAsEndEntity") => refused(
            "the server's certificate is that of an authority; name it in sslrootcert if it is signed by itself, or have \
             one made for a server (basicConstraints CA:FALSE)"
                .into(),
        ),
        _ => error,
    }
}

/// Adds P-521, which ring does not verify. The algorithms live as long as the process.
fn with_p521(algorithms: WebPkiSupportedAlgorithms) -> WebPkiSupportedAlgorithms {
    static ALL: std::sync::OnceLock<WebPkiSupportedAlgorithms> = std::sync::OnceLock::new();
    *ALL.get_or_init(|| {
        let all = [algorithms.all, P521].concat();
        let mapping = [algorithms.mapping, &[(SignatureScheme::ECDSA_NISTP521_SHA512, &P521[..1])]].concat();
        WebPkiSupportedAlgorithms { all: all.leak(), mapping: mapping.leak() }
    })
}

const P521: &[&dyn SignatureVerificationAlgorithm] = &[
    &P521Algorithm { signed: alg_id::ECDSA_SHA512, hash: |message| Sha512::digest(message).to_vec() },
    &P521Algorithm { signed: alg_id::ECDSA_SHA384, hash: |message| Sha384::digest(message).to_vec() },
    &P521Algorithm { signed: alg_id::ECDSA_SHA256, hash: |message| Sha256::digest(message).to_vec() },
];

/// The verification of signatures of P-521 with one kind of hash.
#[derive(Debug)]
struct P521Algorithm {
    signed: AlgorithmIdentifier,
    hash: fn(&[u8]) -> Vec<u8>,
}

/// The bytes of a number of P-521.
const P521_BYTES: usize = 66;

impl SignatureVerificationAlgorithm for P521Algorithm {
    fn verify_signature(
        &self,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> std::result::Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(key).map_err(|_| InvalidSignature)?;
        let signature = Signature::from_der(signature).map_err(|_| InvalidSignature)?;
        // A hash is a number. The crate takes none that is shorter than half of the numbers.
        let hash = (self.hash)(message);
        let mut number = [0; P521_BYTES];
        number[P521_BYTES - hash.len()..].copy_from_slice(&hash);
        key.verify_prehash(&number, &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.signed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_one_label() {
        for (pattern, host, expected) in [
            ("db.example", "DB.example", true),
            ("db.example", "db.example.org", false),
            ("*.example", "db.example", true),
            ("*.example", "a.db.example", false),
            ("*.example", ".example", false),
            ("*", "localhost", false),
            ("d*.example", "db.example", false),
            ("", "db", false),
        ] {
            assert_eq!(fits(pattern, host), expected, "{pattern} {host}");
        }
    }
}
