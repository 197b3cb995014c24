package egress

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

const (
	// maxHello is how much of what a client says first is looked at: no ClientHello of a real client is longer, and no header
	// up to its Host should be.
	maxHello = 32 << 10
	// maxMethod is the longest method of an HTTP request that is let through.
	maxMethod = 32
)

// speech is what a client's first bytes are.
type speech struct {
	// protocol is "TLS", "HTTP", or empty for anything else.
	protocol string
	// names are the servers it names, in lower case without a trailing dot and without a port; one where all is well.
	names []string
	// head is how many bytes the ClientHello or the header of the request takes, and body how many follow that are the
	// request's; inChunks where its parts say so themselves.
	head int
	body int64
}

// inChunks is a body whose length is not known beforehand.
const inChunks = -1

var (
	// errMore says that what is there is not enough to tell.
	errMore    = errors.New("more is needed")
	errTLS     = errors.New("it begins like TLS and is none")
	errHTTP    = errors.New("it begins like HTTP and is none, or can be read in more ways than one")
	errTooLong = errors.New("it does not say within 32 KiB whom it calls")
	errHTTP2   = errors.New("it is HTTP/2 without TLS, whose requests are not read here; use HTTP/1.1 or TLS")
	errProxy   = errors.New("it begins with a header of the PROXY protocol, which would hide the request behind it")
)

// listen makes out what a client says. It returns errMore as long as it cannot tell, and another error for bytes that some
// server may read as TLS or HTTP though they are no clean form of it. Everything else passes without a name: a protocol that
// is neither TLS nor HTTP. answered says that the server has spoken before the client, as no server of TLS does: then bytes
// that only resemble TLS, such as the length of a MySQL packet, are another protocol's.
func listen(said []byte, answered bool) (speech, error) {
	if len(said) == 0 {
		return speech{}, errMore
	}
	var s speech
	var err error
	switch first := said[0]; {
	case first == recordHandshake:
		s, err = listenTLS(said)
	case first >= recordFirst && first <= recordLast:
		err = errTLS
	case first >= 0x80:
		if err = oldHello(said); err == nil {
			s, err = listenHTTP(said)
		}
	default:
		s, err = listenHTTP(said)
	}
	if errors.Is(err, errTLS) {
		if answered {
			return speech{}, nil
		}
		err = unlessMongo(said)
	}
	if errors.Is(err, errMore) && len(said) >= maxHello {
		err = errTooLong
	}
	return s, err
}

// Of TLS: types of records, of handshake messages, of extensions and of names, and sizes.
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

// listenTLS reads the server name of a ClientHello, which may come in any number of records.
func listenTLS(said []byte) (speech, error) {
	var message []byte
	for rest := said; ; {
		if len(rest) < recordHeader {
			return speech{}, errMore
		}
		n := swap(rest[3:])
		if rest[0] != recordHandshake || rest[1] != 3 || n == 0 || n > maxRecord {
			return speech{}, errTLS
		}
		part := rest[recordHeader:min(recordHeader+n, len(rest))]
		message = append(message, part...)
		if len(message) > 0 && message[0] != helloClient {
			return speech{}, errTLS
		}
		if len(part) < n {
			return speech{}, errMore
		}
		rest = rest[recordHeader+n:]
		if len(message) >= messageHeader {
			length := int(message[1])<<16 | swap(message[2:])
			if length > maxHello {
				return speech{}, errTooLong
			}
			if len(message) < messageHeader+length {
				continue
			}
			// A record that a ClientHello ends in has nothing more in it.
			names, ok := serverNames(message[messageHeader : messageHeader+length])
			if !ok || len(message) > messageHeader+length {
				return speech{}, errTLS
			}
			return speech{protocol: "TLS", names: names, head: len(said) - len(rest)}, nil
		}
	}
}

// field cuts a field with a length before it of size bytes from the front of data.
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

// serverNames returns the names in a ClientHello's body; ok is false for one that is malformed.
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

// oldHello returns errTLS for a ClientHello in the format of SSL 2, which some servers of TLS still read: a length with the
// highest bit set, the type, the version.
func oldHello(said []byte) error {
	const typeAt, versionAt = 2, 3
	if len(said) <= typeAt {
		return errMore
	}
	if said[0] == 0x80 && said[typeAt] != 0 { // 0 is memcached's binary protocol, the length of a key
		return errTLS
	}
	if said[typeAt] != helloClient {
		return nil
	}
	if len(said) <= versionAt {
		return errMore
	}
	if said[versionAt] == 0 || said[versionAt] == 2 || said[versionAt] == 3 {
		return errTLS
	}
	return nil
}

// unlessMongo returns nil for a message of MongoDB, whose length may look like the type of a TLS record, and errTLS for
// anything else: length, request id, answered id (none), operation, each of four bytes, the least significant first. No
// server of TLS reads such a message as a ClientHello.
func unlessMongo(said []byte) error {
	const header = 16
	var h [header]byte
	n := copy(h[:], said)
	if h[2] != 0 || h[3] != 0 || said[0] == recordHandshake && h[5] == helloClient {
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

// listenHTTP reads the host of an HTTP/1 request, of its request line where that has one and of its header.
func listenHTTP(said []byte) (speech, error) {
	if bytes.HasPrefix(said, []byte(proxySignature)) {
		return speech{}, errProxy
	}
	head := bytes.TrimLeft(said, "\r\n") // servers forgive empty lines
	if len(head) == 0 || strings.HasPrefix(proxySignature, string(said)) {
		return speech{}, errMore
	}
	switch err := maybeRequest(head); {
	case errors.Is(err, errNoRequest):
		return speech{}, nil
	case err != nil:
		return speech{}, err
	}
	end := bytes.IndexByte(head, '\n')
	method, target, version, err := requestLine(head[:end])
	if err != nil || version == "" {
		return speech{}, err
	}
	lines := head[end+1:]
	stop := headerEnd(lines)
	if stop < 0 {
		return speech{}, errMore
	}
	s := speech{protocol: "HTTP", head: len(said) - len(lines) + stop}
	if authority, ok := authorityOf(method, target); ok {
		s.names = append(s.names, withoutPort(authority))
	}
	return s, s.header(lines[:stop], version)
}

// header reads the lines of a header into s. It takes nothing that servers read in more ways than one, or the next request
// might begin for them where for us there is a body.
func (s *speech) header(lines []byte, version string) error {
	lengths := 0
	for line := range bytes.Lines(lines) {
		text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
		if text == "" {
			break
		}
		name, value, found := strings.Cut(text, ":")
		if !found || name == "" || strings.ContainsAny(text, "\x00\r") || strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f || !isToken(byte(r)) }) {
			return errHTTP
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "host":
			s.names = append(s.names, withoutPort(value))
		case "content-length":
			n, err := strconv.ParseUint(value, 10, 62)
			if lengths++; err != nil || lengths > 1 {
				return errHTTP
			}
			s.body = int64(n)
		case "transfer-encoding":
			if lengths++; !strings.EqualFold(value, "chunked") || lengths > 1 || version != "HTTP/1.1" {
				return errHTTP
			}
			s.body = inChunks
		}
	}
	return nil
}

// proxySignature begins a header of the PROXY protocol, version 2.
const proxySignature = "\r\n\r\n\x00\r\nQUIT\n"

// maybeRequest returns nil if head holds a line that may be the first of an HTTP request, errMore if it may become one,
// errNoRequest if it does not, and errHTTP for a line with control characters that some servers read as a request.
func maybeRequest(head []byte) error {
	method := head
	for len(method) > 0 && blank(method[0]) { // some servers forgive blanks
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

// errNoRequest says that bytes are of no protocol that is read here.
var errNoRequest = errors.New("it is no request")

// maybeTarget judges the rest of a first line, which begins behind the method.
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

// word reports whether a method is made of letters, dashes and underscores. Others, with a control character in their line,
// begin a binary protocol: LDAP, or git, whose lines begin with a length in digits.
func word(method []byte) bool {
	for _, c := range method {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// blank reports whether c separates the words of a request line for some server. HTTP says that only a space does.
func blank(c byte) bool {
	return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c >= 0x1c && c <= 0x1f || c == 0x85 || c == 0xa0
}

// isToken returns whether c may stand in an HTTP method.
func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// words parts a line at blanks and CRs.
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

// requestLine parts a request line. The version is empty for a line of another protocol. A line that only some servers take is
// refused: what they make of it is not known.
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

// headerEnd returns where the empty line after a header ends, -1 where there is none yet.
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

// authorityOf returns the host that a request line names itself, as one to a proxy does.
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

// withoutPort returns the name in "name:port".
func withoutPort(authority string) string {
	if colon := strings.LastIndexByte(authority, ':'); colon >= 0 && !strings.Contains(authority[colon:], "]") {
		authority = authority[:colon]
	}
	return normal(authority)
}

// normal returns a name in lower case without the dot at its end. Only ASCII has case here: other letters that Unicode turns
// into a letter of ASCII, such as the Kelvin sign, make another name.
func normal(name string) string {
	lower := []byte(strings.TrimSuffix(name, "."))
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return string(lower)
}
