package access

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"kaged.dev/pkg/fault"
)

// Hosts has the host names and origins under which browsers may use the gateway: those of the listen address and of
// the UI URL. A request of a DNS rebinding attack has the attacker's host name, and is refused. Hosts is not
// changed after [NewHosts].
type Hosts struct {
	names   map[string]bool // host:port
	origins map[string]bool // scheme://host:port
	anyIP   string          // the port under which every IP address is accepted, or ""
}

// NewHosts returns the hosts of a gateway. listen is host:port with the real port. uiURL is the base URL that
// people open, or "". It fails with fault.BadRequest for unreadable values.
func NewHosts(listen, uiURL string) (*Hosts, error) {
	h := &Hosts{names: map[string]bool{}, origins: map[string]bool{}}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fault.Wrap(err, fault.BadRequest, "The listen address %q is not host:port.", listen)
	}
	ip, ipErr := netip.ParseAddr(host)
	switch {
	case host == "" || ipErr == nil && ip.IsUnspecified():
		h.anyIP = port
		h.add("localhost", port)
	case host == "localhost" || ipErr == nil && ip.IsLoopback():
		for _, name := range []string{"localhost", "127.0.0.1", "::1", host} {
			h.add(name, port)
		}
	default:
		h.add(host, port)
	}
	if uiURL == "" {
		return h, nil
	}
	u, err := ParseUIURL(uiURL)
	if err != nil {
		return nil, err
	}
	name := withPort(strings.ToLower(u.Host), u.Scheme)
	h.names[name] = true
	h.origins[u.Scheme+"://"+name] = true
	return h, nil
}

// ParseUIURL parses the base URL that people open: http or https, a host, no query. It fails with fault.BadRequest.
func ParseUIURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" ||
		u.User != nil {
		return nil, fault.New(fault.BadRequest, "The UI URL %q is not of the form http(s)://host[:port].", raw)
	}
	return u, nil
}

func (h *Hosts) add(host, port string) {
	name := strings.ToLower(net.JoinHostPort(host, port))
	h.names[name] = true
	h.origins["http://"+name] = true
}

// AllowsHost reports whether the Host header of a request is allowed.
func (h *Hosts) AllowsHost(host string) bool {
	host = strings.ToLower(host)
	return h.names[withPort(host, "http")] || h.names[withPort(host, "https")] || h.isAnyIP(withPort(host, "http"))
}

// AllowsOrigin reports whether the Origin header of a request is allowed.
func (h *Hosts) AllowsOrigin(origin string) bool {
	u, err := url.Parse(strings.ToLower(origin))
	if err != nil || u.Host == "" {
		return false
	}
	name := withPort(u.Host, u.Scheme)
	return h.origins[u.Scheme+"://"+name] || u.Scheme == "http" && h.isAnyIP(name)
}

func (h *Hosts) isAnyIP(hostport string) bool {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil || h.anyIP == "" || port != h.anyIP {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

// withPort appends the scheme's default port to a host without a port.
func withPort(host, scheme string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}
