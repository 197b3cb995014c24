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
	// maxToken is the longest method of an HTTP request.
	maxToken = 32
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
)

// listen makes out what a client says. It returns errMore as long as it cannot tell, and another error where the bytes are a
// broken form of what they begin as. What it cannot name it lets pass: a protocol that is neither TLS nor HTTP/1.
func listen(said []byte) (speech, error) {
	if len(said) == 0 {
		return speech{}, errMore
	}
	var s speech
	var err error
	if said[0] == recordHandshake {
		s, err = listenTLS(said)
	} else {
		s, err = listenHTTP(said)
	}
	if errors.Is(err, errMore) && len(said) >= maxHello {
		err = errTooLong
	}
	return s, err
}

// Of TLS: types of records, of handshake messages, of extensions and of names, and sizes.
const (
	recordHandshake = 22
	helloClient     = 1
	serverName      = 0
	hostName        = 0
	recordHeader    = 5
	messageHeader   = 4
	maxRecord       = 1 << 14
)

// listenTLS reads the server name of a ClientHello, which may come in any number of records.
func listenTLS(said []byte) (speech, error) {
	if len(said) < 2 {
		return speech{}, errMore
	}
	if said[1] != 3 {
		return speech{}, nil // no version of TLS
	}
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

// listenHTTP reads the host of an HTTP/1 request, of its request line where that has one and of its header.
func listenHTTP(said []byte) (speech, error) {
	head := bytes.TrimLeft(said, "\r\n") // servers forgive empty lines
	if len(head) == 0 {
		return speech{}, errMore
	}
	if !maybeRequest(head) {
		return speech{}, nil
	}
	end := bytes.IndexByte(head, '\n')
	if end < 0 {
		return speech{}, errMore
	}
	method, target, version := requestLine(head[:end])
	if !strings.HasPrefix(strings.ToUpper(version), "HTTP/1") {
		return speech{}, nil
	}
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return speech{}, errHTTP
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

// maybeRequest returns whether head may become the first line of an HTTP request.
func maybeRequest(head []byte) bool {
	for i, c := range head {
		switch {
		case c == ' ' || c == '\t':
			return i > 0 && maybeTarget(head[i+1:])
		case !isToken(c) || i >= maxToken:
			return false
		}
	}
	return true
}

// maybeTarget returns whether text may become what follows the method of a request: no control characters in the line, and
// so no protocol that is not made of lines.
func maybeTarget(text []byte) bool {
	for _, c := range text {
		switch {
		case c == '\n':
			return true
		case c < ' ' && c != '\r' && c != '\t' || c == 0x7f:
			return false
		}
	}
	return true
}

// isToken returns whether c may stand in an HTTP method.
func isToken(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// requestLine parts a request line; version is empty where it has not three parts.
func requestLine(line []byte) (method, target, version string) {
	parts := strings.Fields(string(line))
	if len(parts) < 3 {
		return "", "", ""
	}
	// A target with spaces in it is nothing that a server should take; the last part is the version either way.
	return parts[0], strings.Join(parts[1:len(parts)-1], " "), parts[len(parts)-1]
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
