package dsl

import (
	"net/netip"
	"strings"
	"testing"
)

// All spellings of a rule have one meaning, and ambiguous spellings are refused.
func TestParseRule(t *testing.T) {
	long := strings.Repeat("a.", 125)
	for text, want := range map[string]string{
		"api.github.com:443": "api.github.com:443", "API.GitHub.com.:443": "api.github.com:443",
		"localhost:8080": "localhost:8080", "a:1": "a:1", "a:65535": "a:65535",
		"10.0.0.1:80": "10.0.0.1:80", "[2001:0DB8:0:0::1]:443": "[2001:db8::1]:443", "[::1]:80": "[::1]:80",
		"xn--mller-kva.example:443": "xn--mller-kva.example:443",
		"1.example:80":              "1.example:80", "a-b.c--d:80": "a-b.c--d:80", "0xg.example.0xg:80": "0xg.example.0xg:80",
		long + "aaa:1": long + "aaa:1", strings.Repeat("a", 63) + ".b:1": strings.Repeat("a", 63) + ".b:1",
	} {
		r, err := ParseRule(text)
		if err != nil || r.String() != want || r.Text != text || r.Addr.IsValid() == (r.Host != "") {
			t.Errorf("%q: %+v %v, want %s", text, r, err, want)
		}
	}
	for text, want := range map[string]string{
		"": "no port", "a": "no port", "a:": "no port", "::1": "brackets", "::1:80": "brackets", "[::1]": "no port",
		"[::1]:": "no port", "[::1:80": "no port",
		"a:0": "1 to 65535", "a:65536": "1 to 65535", "a:080": "1 to 65535", "a:+80": "1 to 65535", "a:-1": "1 to 65535",
		"a:8 ": "1 to 65535", "a:٨٠": "1 to 65535",
		"*:443": "wildcards", "*.a:443": "wildcards", "a.*:443": "wildcards", "http://a:80": "scheme", "u@a:80": "scheme",
		"a/b:80": "scheme",
		":80":    "no name", ".:80": "no name", "a..b:80": "two dots", "a..:80": "two dots", ".a:80": "no name",
		"-a:80": "hyphen", "a-.b:80": "hyphen", "a_b:80": "letters",
		"a b:80": "letters", "a\x00b:80": "letters", "a%00:80": "letters", "ä:80": "xn--", "\u212a.example:80": "xn--",
		"a\xff:80":                     "xn--",
		strings.Repeat("a", 64) + ":1": "at most 63", long + "aaaa:1": "at most 253",
		"0.0.0.0:80": "not the address", "255.255.255.255:80": "not the address", "224.0.0.1:80": "not the address",
		"[::]:80": "not the address", "[ff02::1]:80": "not the address",
		"[fe80::1%eth0]:80": "zone", "[::ffff:10.0.0.1]:80": "write 10.0.0.1", "[10.0.0.1]:80": "no IPv6 address",
		"[a]:80": "no IPv6 address", "[]:80": "no IPv6 address",
		"127.1:80": "four numbers", "2130706433:80": "four numbers", "0x7f000001:80": "four numbers",
		"0X7F.1:80": "four numbers", "010.0.0.1:80": "four numbers", "1.2.3.4.5:80": "four numbers",
		"256.1.1.1:80": "four numbers", "1.2.3.4.:80": "four numbers",
	} {
		r, err := ParseRule(text)
		if err == nil || !strings.Contains(err.Error(), want) || r != (Rule{}) {
			t.Errorf("%q: %+v, %v, want %q", text, r, err, want)
		}
	}
}

// Every accepted text is one name or one address with a port, is equal after formatting and parsing, and has one
// meaning for all programs.
func FuzzParseRule(f *testing.F) {
	for _, text := range []string{
		"api.github.com:443", "API.Example.:1", "[2001:db8::1]:443", "[::ffff:1.2.3.4]:80", "1.2.3.4:65535", "0x7f.1:80",
		"*.a:1", "xn--a:1", "a\x00.b:1", "[fe80::1%25]:1", "١.example:443",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			if r != (Rule{}) || err.Error() == "" {
				t.Fatalf("refused, and yet %+v (%v)", r, err)
			}
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again.Host != r.Host || again.Addr != r.Addr || again.Port != r.Port || r.Port == 0 {
			t.Fatalf("%q is %+v, and its own spelling %q is %+v (%v)", text, r, r.String(), again, err)
		}
		if r.Addr.IsValid() == (r.Host != "") || r.Addr.Is4In6() || r.Addr.Zone() != "" {
			t.Fatalf("%q is %+v", text, r)
		}
		if len(r.Host) > maxName || r.Host != strings.ToLower(r.Host) ||
			strings.Trim(r.Host, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
			t.Fatalf("%q is the name %q", text, r.Host)
		}
		if _, err := netip.ParseAddr(r.Host); err == nil {
			t.Fatalf("%q is a name that is an address", text)
		}
	})
}
