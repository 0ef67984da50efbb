//! HTTP CONNECT (RFC 9110, section 9.3.6): the request and its answers. A reader without sockets.

use crate::accounts::Accounts;
use crate::refusal::Failure;
use crate::step::Step;
use crate::target::{Purpose, Target};

const MOST_HEADERS: usize = 128;

/// The head of a request. Where the port wants a password, it has one of `accounts`.
pub fn request(bytes: &[u8], accounts: &Accounts) -> Step {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Partial) => return Step::More,
        Ok(httparse::Status::Complete(length)) => length,
        Err(httparse::Error::TooManyHeaders) => return Step::Refuse(too_large()),
        Err(error) => return Step::Refuse(answer(400, "Bad Request", "", &format!("no HTTP request: {error}"))),
    };
    let mut said = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("proxy-authorization"));
    if !accounts.is_open() && !said.any(|header| accounts.has_basic(header.value)) {
        let header = "Proxy-Authenticate: Basic realm=\"weft proxy\", charset=\"UTF-8\"\r\n";
        let line = "this proxy wants a user and a password";
        return Step::Refuse(answer(407, "Proxy Authentication Required", header, line));
    }
    if request.method != Some("CONNECT") {
        let line = "this proxy takes CONNECT only; for everything else it is a SOCKS5 proxy";
        return Step::Refuse(answer(405, "Method Not Allowed", "Allow: CONNECT\r\n", line));
    }
    match request.path.unwrap_or_default().parse::<Target>() {
        Ok(target) => Step::Connect(length, target),
        Err(error) => Step::Refuse(answer(400, "Bad Request", "", &error.to_string())),
    }
}

/// The answer to a request that is fulfilled.
pub fn connected() -> Vec<u8> {
    b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec()
}

/// The answer to a request that is not.
pub fn refused(failure: Failure, purpose: &Purpose) -> Vec<u8> {
    let (status, reason) = failure.status();
    answer(status, reason, "", &format!("{purpose}: {failure}"))
}

/// The answer to a head without end.
pub fn too_large() -> Vec<u8> {
    answer(431, "Request Header Fields Too Large", "", "the head of the request is too large")
}

fn answer(status: u16, reason: &str, header: &str, line: &str) -> Vec<u8> {
    let length = line.len() + 1;
    format!(
        "HTTP/1.1 {status} {reason}\r\n{header}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{line}\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> String {
        match request(bytes, &Accounts::default()) {
            Step::Refuse(reply) => String::from_utf8(reply).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_connect_names_its_target_and_ends_with_its_head() {
        let head = b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\n\r\n";
        let bytes = [&head[..], b"\x16\x03\x01"].concat();
        assert_eq!(
            request(&bytes, &Accounts::default()),
            Step::Connect(head.len(), "[2001:db8::1]:443".parse().unwrap())
        );
        assert_eq!(request(&head[..head.len() - 1], &Accounts::default()), Step::More);
    }

    #[test]
    fn a_port_with_a_password_wants_one_before_anything_else() {
        let accounts = Accounts::parse("Aladdin:open sesame").unwrap();
        let ask = |header: &str| request(format!("CONNECT a:1 HTTP/1.1\r\n{header}\r\n").as_bytes(), &accounts);
        let right = "Proxy-authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
        assert!(matches!(ask(right), Step::Connect(_, target) if target.to_string() == "a:1"));
        for wrong in
            ["", "Proxy-Authorization: Basic QQ==\r\n", "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"]
        {
            let Step::Refuse(reply) = ask(wrong) else { panic!("{wrong} is taken") };
            let reply = String::from_utf8(reply).unwrap();
            assert!(
                reply.starts_with("HTTP/1.1 407 ") && reply.contains("Proxy-Authenticate: Basic realm="),
                "{reply}"
            );
        }
    }

    #[test]
    fn other_methods_are_told_what_there_is() {
        let reply = refusal(b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\n\r\n");
        assert!(reply.starts_with("HTTP/1.1 405 ") && reply.contains("Allow: CONNECT\r\n"), "{reply}");
        assert!(
            reply.ends_with("this proxy takes CONNECT only; for everything else it is a SOCKS5 proxy\n"),
            "{reply}"
        );
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bytes in [
            &b"CONNECT example.org HTTP/1.1\r\n\r\n"[..],
            b"CONNECT example.org:0 HTTP/1.1\r\n\r\n",
            b"CONNECT http://example.org:80/ HTTP/1.1\r\n\r\n",
            b"CONNECT example.org:443 SMTP/1\r\n\r\n",
            b"CONNECT\x00",
        ] {
            assert!(refusal(bytes).starts_with("HTTP/1.1 400 "));
        }
        let many = format!("CONNECT a:1 HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert!(refusal(many.as_bytes()).starts_with("HTTP/1.1 431 "));
    }
}
