package egress

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

const (
	// maxHello limits the first bytes of a client that are examined: the ClientHello, or an HTTP header.
	maxHello = 32 << 10
	// maxMethod is the maximum length of the method of an HTTP request, in bytes.
	maxMethod = 32
)

// preface is the parsed beginning of a client's bytes.
type preface struct {
	// protocol is "TLS", "HTTP", or empty for any other.
	protocol string
	// names are the servers named by the client, in lower case without port and trailing dot. A well-formed preface may
	// name one several times.
	names []string
	// head is the size of the ClientHello or of the request's header in bytes. body is the size of the request's body,
	// or inChunks.
	head int
	body int64
}

// inChunks is the body size of a chunked request.
const inChunks = -1

var (
	// errMore reports that more bytes are needed.
	errMore    = errors.New("incomplete")
	errTLS     = errors.New("malformed TLS")
	errHTTP    = errors.New("malformed or ambiguous HTTP")
	errTooLong = errors.New("no server name within 32 KiB")
	errHTTP2   = errors.New("HTTP/2 without TLS is not supported; use HTTP/1.1 or TLS")
	errProxy   = errors.New("a header of the PROXY protocol would hide the request behind it")
)

// sniff parses the first bytes of a client. It returns errMore until they suffice, and another error for bytes that
// some server may read as TLS or HTTP although they are malformed. Other protocols pass with an empty preface. answered
// means that the server has already sent bytes, which excludes TLS: bytes that resemble TLS, such as the length of a
// MySQL packet, then belong to another protocol.
func sniff(data []byte, answered bool) (preface, error) {
	if len(data) == 0 {
		return preface{}, errMore
	}
	var s preface
	var err error
	switch first := data[0]; {
	case first == recordHandshake:
		s, err = sniffTLS(data)
	case first >= recordFirst && first <= recordLast:
		err = errTLS
	case first >= 0x80:
		if err = oldHello(data); err == nil {
			s, err = sniffHTTP(data)
		}
	default:
		s, err = sniffHTTP(data)
	}
	if errors.Is(err, errTLS) {
		if answered {
			return preface{}, nil
		}
		err = unlessMongo(data)
	}
	if errors.Is(err, errMore) && len(data) >= maxHello {
		err = errTooLong
	}
	return s, err
}

// TLS constants: types of records, of handshake messages, of extensions and of names, and sizes.
const (
	recordFirst     = 20
	recordHandshake = 22
	recordLast      = 24
	helloClient     = 1
	serverName      = 0
	hostName        = 0
	recordHeader    = 5
	messageHeader   = 4
	maxRecord       = 1 << 14
)

// sniffTLS reads the server name of a ClientHello, which may span several records.
func sniffTLS(data []byte) (preface, error) {
	var message []byte
	for rest := data; ; {
		if len(rest) < recordHeader {
			return preface{}, errMore
		}
		n := swap(rest[3:])
		if rest[0] != recordHandshake || rest[1] != 3 || n == 0 || n > maxRecord {
			return preface{}, errTLS
		}
		part := rest[recordHeader:min(recordHeader+n, len(rest))]
		message = append(message, part...)
		if len(message) > 0 && message[0] != helloClient {
			return preface{}, errTLS
		}
		if len(part) < n {
			return preface{}, errMore
		}
		rest = rest[recordHeader+n:]
		if len(message) >= messageHeader {
			length := int(message[1])<<16 | swap(message[2:])
			if length > maxHello {
				return preface{}, errTooLong
			}
			if len(message) < messageHeader+length {
				continue
			}
			// The record must end with the ClientHello.
			names, ok := serverNames(message[messageHeader : messageHeader+length])
			if !ok || len(message) > messageHeader+length {
				return preface{}, errTLS
			}
			return preface{protocol: "TLS", names: names, head: len(data) - len(rest)}, nil
		}
	}
}

// field cuts a length-prefixed field from the front of data; the prefix has size bytes.
func field(data []byte, size int) (value, rest []byte, ok bool) {
	if len(data) < size {
		return nil, nil, false
	}
	n := 0
	for _, b := range data[:size] {
		n = n<<8 | int(b)
	}
	if len(data) < size+n {
		return nil, nil, false
	}
	return data[size : size+n], data[size+n:], true
}

// serverNames returns the names in the body of a ClientHello; ok is false if it is malformed.
func serverNames(body []byte) (names []string, ok bool) {
	const fixed = 2 + 32 // version and random
	if len(body) < fixed {
		return nil, false
	}
	rest := body[fixed:]
	for _, size := range []int{1, 2, 1} { // session, cipher suites, compression methods
		if _, rest, ok = field(rest, size); !ok {
			return nil, false
		}
	}
	if len(rest) == 0 {
		return nil, true
	}
	extensions, rest, ok := field(rest, 2)
	if !ok || len(rest) > 0 {
		return nil, false
	}
	for len(extensions) > 0 {
		if len(extensions) < 2 {
			return nil, false
		}
		kind := swap(extensions)
		var data []byte
		if data, extensions, ok = field(extensions[2:], 2); !ok {
			return nil, false
		}
		if kind != serverName {
			continue
		}
		list, rest, ok := field(data, 2)
		if !ok || len(rest) > 0 || len(list) == 0 {
			return nil, false
		}
		for len(list) > 0 {
			isHost := list[0] == hostName
			var name []byte
			if name, list, ok = field(list[1:], 2); !ok {
				return nil, false
			}
			if isHost {
				names = append(names, normal(string(name)))
			}
		}
	}
	return names, true
}

// oldHello returns errTLS for a ClientHello in the format of SSL 2, which some TLS servers still accept: a length with
// the highest bit set, the type, the version.
func oldHello(data []byte) error {
	const typeAt, versionAt = 2, 3
	if len(data) <= typeAt {
		return errMore
	}
	if data[0] == 0x80 && data[typeAt] != 0 { // 0 is memcached's binary protocol, the length of a key
		return errTLS
	}
	if data[typeAt] != helloClient {
		return nil
	}
	if len(data) <= versionAt {
		return errMore
	}
	if data[versionAt] == 0 || data[versionAt] == 2 || data[versionAt] == 3 {
		return errTLS
	}
	return nil
}

// unlessMongo returns nil for a MongoDB message, whose length may resemble a TLS record type, and errTLS for other
// data. A message has four little-endian words: length, request id, answered id (zero), operation. A TLS server rejects
// it.
func unlessMongo(data []byte) error {
	const header = 16
	var h [header]byte
	n := copy(h[:], data)
	if h[2] != 0 || h[3] != 0 || data[0] == recordHandshake && h[5] == helloClient {
		return errTLS
	}
	for _, operation := range []string{"\xdd\x07\x00\x00", "\xd4\x07\x00\x00", "\xdc\x07\x00\x00"} {
		if want := "\x00\x00\x00\x00" + operation; n <= 8 || strings.HasPrefix(want, string(h[8:n])) {
			if n < header {
				return errMore
			}
			return nil
		}
	}
	return errTLS
}

// sniffHTTP reads the host of an HTTP/1 request, from an absolute request target and from the Host header.
func sniffHTTP(data []byte) (preface, error) {
	if bytes.HasPrefix(data, []byte(proxySignature)) {
		return preface{}, errProxy
	}
	head := bytes.TrimLeft(data, "\r\n") // servers skip empty lines
	if len(head) == 0 || strings.HasPrefix(proxySignature, string(data)) {
		return preface{}, errMore
	}
	switch err := maybeRequest(head); {
	case errors.Is(err, errNoRequest):
		return preface{}, nil
	case err != nil:
		return preface{}, err
	}
	end := bytes.IndexByte(head, '\n')
	method, target, version, err := requestLine(head[:end])
	if err != nil || version == "" {
		return preface{}, err
	}
	lines := head[end+1:]
	stop := headerEnd(lines)
	if stop < 0 {
		return preface{}, errMore
	}
	s := preface{protocol: "HTTP", head: len(data) - len(lines) + stop}
	if authority, ok := authorityOf(method, target); ok {
		s.names = append(s.names, withoutPort(authority))
	}
	return s, s.header(lines[:stop], version)
}

// header parses header lines into p. It refuses lines that servers read differently, as they might see the next request
// where the gate sees a body.
func (p *preface) header(lines []byte, version string) error {
	lengths := 0
	for line := range bytes.Lines(lines) {
		text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
		if text == "" {
			break
		}
		name, value, found := strings.Cut(text, ":")
		odd := func(r rune) bool { return r > 0x7f || !isToken(byte(r)) }
		if !found || name == "" || strings.ContainsAny(text, "\x00\r") || strings.ContainsFunc(name, odd) {
			return errHTTP
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "host":
			p.names = append(p.names, withoutPort(value))
		case "content-length":
			n, err := strconv.ParseUint(value, 10, 62)
			if lengths++; err != nil || lengths > 1 {
				return errHTTP
			}
			p.body = int64(n)
		case "transfer-encoding":
			if lengths++; !strings.EqualFold(value, "chunked") || lengths > 1 || version != "HTTP/1.1" {
				return errHTTP
			}
			p.body = inChunks
		}
	}
	return nil
}

// proxySignature begins a version 2 header of the PROXY protocol.
const proxySignature = "\r\n\r\n\x00\r\nQUIT\n"

// maybeRequest returns nil if head has a complete first line that may be an HTTP request's, errMore if the line is
// incomplete, errNoRequest if it cannot be one, and errHTTP for a line with control characters that some servers
// accept.
func maybeRequest(head []byte) error {
	method := head
	for len(method) > 0 && blank(method[0]) { // some servers skip leading blanks
		method = method[1:]
	}
	for i, c := range method {
		switch {
		case i > 0 && (blank(c) || c == '\r' || c == '\n'):
			return maybeTarget(method[:i], method[i:])
		case !isToken(c):
			return errNoRequest
		}
	}
	return errMore
}

// errNoRequest marks bytes of another protocol.
var errNoRequest = errors.New("not a request")

// maybeTarget is maybeRequest for the rest of the line after the method.
func maybeTarget(method, rest []byte) error {
	for _, c := range rest {
		switch {
		case c == '\n':
			return nil
		case c < ' ' && c != '\r' && !blank(c) || c == 0x7f:
			if word(method) {
				return errHTTP
			}
			return errNoRequest
		}
	}
	return errMore
}

// word reports whether a method consists of letters, dashes and underscores. Any other method, in a line with control
// characters, begins a binary protocol: LDAP, or git, whose lines begin with their length in digits.
func word(method []byte) bool {
	for _, c := range method {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// blank reports whether some server accepts c as a separator in a request line. By the standard only a space is.
func blank(c byte) bool {
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c >= 0x1c && c <= 0x1f || c == 0x85 || c == 0xa0
}

// isToken reports whether c may occur in an HTTP method.
func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// words splits a line at blanks and CRs.
func words(line []byte) (list [][]byte) {
	begin := -1
	for i, c := range line {
		switch separates := blank(c) || c == '\r'; {
		case separates && begin >= 0:
			list = append(list, line[begin:i])
			begin = -1
		case !separates && begin < 0:
			begin = i
		}
	}
	if begin >= 0 {
		list = append(list, line[begin:])
	}
	return list
}

// requestLine splits a request line. The version is empty for another protocol. A line that only some servers accept is
// refused, since servers disagree on its meaning.
func requestLine(line []byte) (method, target, version string, err error) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	words := words(line)
	isHTTP := false
	for _, word := range words[1:] {
		isHTTP = isHTTP || len(word) >= 5 && strings.EqualFold(string(word[:5]), "HTTP/")
	}
	switch {
	case string(words[0]) == "PROXY":
		return "", "", "", errProxy
	case !isHTTP:
		return "", "", "", nil
	case string(line) == "PRI * HTTP/2.0":
		return "", "", "", errHTTP2
	case len(words) != 3 || len(words[0]) > maxMethod || !bytes.Equal(line, bytes.Join(words, []byte(" "))):
		return "", "", "", errHTTP
	}
	if version = string(words[2]); version != "HTTP/1.1" && version != "HTTP/1.0" {
		return "", "", "", errHTTP
	}
	return string(words[0]), string(words[1]), version, nil
}

// headerEnd returns the offset after the empty line that ends a header, -1 if that is missing.
func headerEnd(lines []byte) int {
	for at := 0; at < len(lines); {
		n := bytes.IndexByte(lines[at:], '\n')
		if n < 0 {
			return -1
		}
		blank := n == 0 || n == 1 && lines[at] == '\r'
		if at += n + 1; blank {
			return at
		}
	}
	return -1
}

// authorityOf returns the host in a request line, as sent to a proxy.
func authorityOf(method, target string) (string, bool) {
	if strings.EqualFold(method, "CONNECT") {
		return target, true
	}
	_, rest, found := strings.Cut(target, "://")
	if !found || strings.HasPrefix(target, "/") {
		return "", false
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	return rest, true
}

// withoutPort returns the normal name of an authority "name:port".
func withoutPort(authority string) string {
	if colon := strings.LastIndexByte(authority, ':'); colon >= 0 && !strings.Contains(authority[colon:], "]") {
		authority = authority[:colon]
	}
	return normal(authority)
}

// normal returns a name in lower case without its trailing dot. Only ASCII is folded: Unicode folding would map other
// letters, such as the Kelvin sign, to ASCII ones.
func normal(name string) string {
	lower := []byte(strings.TrimSuffix(name, "."))
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}
