package sandboxsupervisor

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"kaged.dev/pkg/cage"
	"kaged.dev/pkg/config"
	"kaged.dev/services/sandbox-supervisor/internal/adapter/egress"
)

// ownHeaders are headers of a request's transport or target, which cannot be credentials.
var ownHeaders = []string{
	"connection",
	"content-length",
	"host",
	"te",
	"trailer",
	"transfer-encoding",
	"upgrade",
	"accept-encoding",
}

// validateHosts checks private_hosts and credentials.
func (c Config) validateHosts() error {
	for _, host := range c.PrivateHosts {
		name := strings.TrimPrefix(host, "*.")
		if rule, err := cage.ParseRule(name + ":1"); err != nil || rule.Host != name {
			return fmt.Errorf(
				"private_hosts has %q; write names in lower case, such as \"npm.corp.example\" or \"*.corp.example\"",
				host,
			)
		}
	}
	named := map[string]string{}
	for _, at := range slices.Sorted(maps.Keys(c.Credentials)) {
		rule, err := cage.ParseRule(at)
		if err != nil || rule.Host == "" {
			return fmt.Errorf("credentials has %q; write the name and the port of a host, such as \"api.github.com:443\"", at)
		}
		if other := named[rule.Host]; other != "" {
			return fmt.Errorf(
				"credentials has %q and %q; a host can have one, because http://%s/ leads to it",
				other,
				at,
				rule.Host,
			)
		}
		named[rule.Host] = at
		credential := c.Credentials[at]
		if !httpguts.ValidHeaderFieldName(credential.Header) ||
			slices.Contains(ownHeaders, strings.ToLower(credential.Header)) {
			return fmt.Errorf(
				"credentials %q has the header %q; write the name of one that says who somebody is, such as \"Authorization\"",
				at,
				credential.Header,
			)
		}
		if strings.TrimSpace(string(credential.Value)) == "" {
			return fmt.Errorf("credentials %q has no value; write one such as \"Bearer ${GITHUB_TOKEN}\"", at)
		}
	}
	return nil
}

// egress returns the options shared by the gates of all cages.
func (c Config) egress(log *slog.Logger) egress.Options {
	return egress.Options{
		Limits: egress.Limits{
			Connections: c.NetConnections, ResolveTimeout: c.NetResolveTimeout.D(), ConnectTimeout: c.NetConnectTimeout.D(),
			HelloTimeout: c.NetHelloTimeout.D(), IdleTimeout: c.NetIdleTimeout.D(), BodyBytes: c.NetCredentialBody,
		},
		Outside:      egress.System(c.NetResolvedNames, c.NetResolvedFor.D()),
		PrivateHosts: c.PrivateHosts,
		Credentials:  c.credentials(log),
	}
}

// credentials returns the credentials with their values of the environment. One without a value is kept with the
// reason, for the error at its first use.
func (c Config) credentials(log *slog.Logger) (list []egress.Credential) {
	for _, at := range slices.Sorted(maps.Keys(c.Credentials)) {
		rule, err := cage.ParseRule(at)
		if err != nil {
			continue // refused by Validate
		}
		credential := egress.Credential{Host: rule.Host, Port: rule.Port, Header: c.Credentials[at].Header}
		written := string(c.Credentials[at].Value)
		value, missing := config.Expand(written)
		switch {
		case len(missing) > 0:
			credential.Missing = fmt.Sprintf(
				"the credential of %s refers to ${%s}, which is not set where kaged runs",
				at,
				missing[0],
			)
		case !httpguts.ValidHeaderFieldValue(value):
			credential.Missing = fmt.Sprintf("the credential of %s has characters that no header may have", at)
		default:
			credential.Value = egress.Secret(value)
		}
		if credential.Missing != "" {
			log.Warn("a credential cannot be used: " + credential.Missing)
		} else if !strings.Contains(written, "${") {
			log.Warn("a credential stands in the configuration itself; keep it in the environment and refer to it as ${NAME}",
				"host", at)
		}
		list = append(list, credential)
	}
	return list
}
