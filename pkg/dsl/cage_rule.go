package dsl

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rule is one entry of net.allow: a name or an address, and a port.
type Rule struct {
	// Text is the rule as written.
	Text string
	// Host is the name in lower case without a trailing dot, empty for a rule with an address.
	Host string
	// Addr is the address of a rule with an address.
	Addr netip.Addr
	// Port is the port.
	Port uint16
}

// String returns the common form of all spellings of the rule, such as "api.github.com:443" and "[2001:db8::1]:443".
func (r Rule) String() string {
	if r.Addr.IsValid() {
		return netip.AddrPortFrom(r.Addr, r.Port).String()
	}
	return r.Host + ":" + strconv.Itoa(int(r.Port))
}

// The limits of names, from RFC 1035.
const (
	maxName  = 253
	maxLabel = 63
)

// ParseRule reads an entry of net.allow. The error is a sentence with the valid spelling.
//
// A host is a name of letters, digits and hyphens, in any case and with or without the trailing dot, or an address,
// IPv6 in brackets. Names outside ASCII are refused and not converted, because two different names can look alike;
// their xn-- form is allowed. So are the old spellings of IPv4 addresses (0x7f.1), which some programs take for
// addresses and others for names, and wildcards.
func ParseRule(text string) (Rule, error) {
	host, port, ok := cutPort(text)
	if !ok {
		return Rule{}, fmt.Errorf("%s has no port; write host:port, such as api.github.com:443", quoted(text))
	}
	r := Rule{Text: text}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' || port[0] == '+' {
		return Rule{}, fmt.Errorf("the port %s of %s is not a number from 1 to 65535", quoted(port), quoted(text))
	}
	r.Port = uint16(n)
	if inside, ok := strings.CutPrefix(host, "["); ok {
		if r.Addr, err = address6(strings.TrimSuffix(inside, "]"), text); err != nil {
			return Rule{}, err
		}
		return r, nil
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		if err := reachable(addr, text); err != nil {
			return Rule{}, err
		}
		r.Addr = addr
		return r, nil
	}
	name := strings.TrimSuffix(host, ".")
	if err := checkName(name, text); err != nil {
		return Rule{}, err
	}
	r.Host = strings.ToLower(name)
	return r, nil
}

// cutPort splits at the colon before the port.
func cutPort(text string) (host, port string, ok bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || i == len(text)-1 {
		return "", "", false
	}
	host, port = text[:i], text[i+1:]
	if strings.HasPrefix(host, "[") {
		return host, port, strings.HasSuffix(host, "]")
	}
	return host, port, !strings.HasSuffix(port, "]")
}

func address6(host, text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil || addr.Is4():
		return netip.Addr{}, fmt.Errorf("%s has no IPv6 address in its brackets", quoted(text))
	case addr.Zone() != "":
		return netip.Addr{}, fmt.Errorf(
			"%s has a zone, which means something on one machine only; name an address without one",
			quoted(text),
		)
	case addr.Is4In6():
		return netip.Addr{}, fmt.Errorf("%s is an IPv4 address in the clothes of IPv6; write %s", quoted(text), addr.Unmap())
	}
	return addr, reachable(addr, text)
}

func reachable(addr netip.Addr, text string) error {
	if addr.IsUnspecified() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Errorf("%s is not the address of a host", quoted(text))
	}
	return nil
}

func checkName(host, text string) error {
	switch {
	case strings.Contains(host, "*"):
		return fmt.Errorf("wildcards are not supported; name each host that %s is to mean", quoted(text))
	case strings.ContainsAny(host, "/@"):
		return fmt.Errorf("%s is not host:port; leave out the scheme, the user and the path", quoted(text))
	case strings.Contains(host, ":"):
		return fmt.Errorf("an IPv6 address stands in brackets, such as [2001:db8::1]:443, and %s has none", quoted(text))
	case len(host) > maxName:
		return fmt.Errorf("the name in %s has %d characters; a name has at most %d", quoted(text), len(host), maxName)
	}
	label := ""
	for label = range strings.SplitSeq(host, ".") {
		switch {
		case label == "":
			return fmt.Errorf("%s has no name, or two dots with nothing between", quoted(text))
		case len(label) > maxLabel:
			return fmt.Errorf(
				"%s has a part of %d characters; each part of a name has at most %d",
				quoted(text),
				len(label),
				maxLabel,
			)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fmt.Errorf("a part of the name in %s begins or ends with a hyphen", quoted(text))
		}
		for _, c := range label {
			switch {
			case c >= 0x80:
				return fmt.Errorf("%s is not ASCII; write the name's xn-- form, which cannot be mistaken for another", quoted(text))
			case (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-':
				return fmt.Errorf("%s has a %q; names are made of letters, digits, hyphens and dots", quoted(text), c)
			}
		}
	}
	if isNumber(strings.ToLower(label)) {
		return fmt.Errorf(
			"%s is neither a name nor a whole IPv4 address; write all four numbers of an address in decimal",
			quoted(text),
		)
	}
	return nil
}

// isNumber reports whether old address parsers accept a label as a number.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func quoted(text string) string { return strconv.Quote(shown(text)) }
