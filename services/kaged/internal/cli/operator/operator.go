// Package operator is `kaged operator`: the configurations of operators in a deployment that they share.
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	apiv1 "kaged.dev/proto/gen/kaged/api/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// Command is the group of commands about operators.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("operator", "Configure the operators of a shared deployment")
	cmd.AddCommand(configure(a, p))
	return cmd
}

// choice has the flags of `kaged operator config`.
type choice struct {
	as, url      string
	own, asJSON  bool
	user, source string
	replace      bool
}

func configure(a kit.App, p *kit.Places) *cobra.Command {
	var c choice
	cmd := &cobra.Command{
		Use:   "config (USER | --own) [FILE]",
		Short: "Print or replace the configuration of one operator",
		Long: "Prints the configuration of one operator, or replaces it by FILE (- for stdin). It is TOML with the\n" +
			"tables models, default_tools and ui and the key operator_name, and is laid over the deployment's\n" +
			"configuration from the operator's next message. An empty FILE removes it.\n\n" +
			"With USER it is the administrators' configuration for that operator, which wins over the operator's\n" +
			"own. Run it beside a gateway, such as in the gateway's container, as an administrator (--as): it signs\n" +
			"in with the nonce of the sign-in proxy and the admin_group of the gateway's configuration. With --own\n" +
			"it is your own configuration, without default_tools; with --url, KAGED_TOKEN is a token of scope\n" +
			"read to print it and of scope admin to replace it.",
		Example: "  kaged operator config ada ada.toml --as root\n" +
			"  kaged operator config --own mine.toml --url https://kaged.example.com",
		Args: func(cmd *cobra.Command, list []string) error { return c.read(cmd, list) },
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd, a, p) },
	}
	cmd.Flags().StringVar(&c.as, "as", "", "the administrator's user id, for the record")
	cmd.Flags().BoolVar(&c.own, "own", false, "your own configuration")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the answer of the API as JSON")
	kit.AddURL(cmd, &c.url)
	return cmd
}

// read takes the arguments.
func (c *choice) read(cmd *cobra.Command, list []string) error {
	if !c.own {
		if len(list) == 0 {
			return kit.Misused(cmd, "an operator is needed, or --own")
		}
		if c.as == "" {
			return kit.Misused(cmd, "--as with your user id as an administrator is needed")
		}
		c.user, list = list[0], list[1:]
	} else if c.as != "" {
		return kit.Misused(cmd, "--own and --as exclude each other")
	}
	switch len(list) {
	case 0:
	case 1:
		c.source, c.replace = list[0], true
	default:
		return kit.Misused(cmd, "one FILE can be given")
	}
	return kit.UrlFlag(cmd, c.url)
}

func (c *choice) run(cmd *cobra.Command, a kit.App, p *kit.Places) error {
	document := ""
	if c.replace {
		var err error
		if document, err = c.document(a); err != nil {
			return err
		}
	}
	if c.own {
		return a.Api(cmd, p, c.url, func(ctx context.Context, api *client.Client) error {
			return c.mine(ctx, a, api, document)
		})
	}
	api, err := administrator(a, p, c.url, c.as)
	if err != nil {
		return err
	}
	defer api.Close()
	if err := api.Bootstrap(cmd.Context()); err != nil {
		return err
	}
	return c.theirs(cmd.Context(), a, api, document)
}

// document reads and checks the new configuration, so that a refusal names the file.
func (c *choice) document(a kit.App) (string, error) {
	name, in := c.source, a.Stdin
	if name == "-" {
		name = "stdin"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return "", fault.Wrap(err, fault.FileIO, "The file %s cannot be read: %s.", name, reason(err))
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, config.MaxOperatorConfig+1))
	if err != nil {
		return "", fault.Wrap(err, fault.FileIO, "The file %s cannot be read: %s.", name, reason(err))
	}
	_, err = config.ParseOperator(name, data, !c.own)
	return string(data), err
}

// reason returns the text of the system's error without the path.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

func (c *choice) mine(ctx context.Context, a kit.App, api *client.Client, document string) error {
	var found *apiv1.LocalConfig
	if c.replace {
		resp, err := api.SetLocalConfig(ctx, &apiv1.SetLocalConfigRequest{Document: document})
		if err != nil {
			return err
		}
		found = resp.GetConfig()
	} else {
		resp, err := api.GetLocalConfig(ctx, &apiv1.GetLocalConfigRequest{})
		if err != nil {
			return err
		}
		found = resp.GetConfig()
	}
	switch {
	case c.asJSON:
		return kit.WriteJSON(a.Stdout, map[string]any{
			"document": found.GetDocument(), "revision": found.GetRevision(),
			"administrator_document": found.GetAdministratorDocument(),
		})
	case c.replace:
		return c.done(a, "your configuration", found.GetRevision(), document)
	case found.GetAdministratorDocument() != "":
		fmt.Fprintf(a.Stderr, "kaged: administrators have set for you:\n%s\n",
			strings.TrimRight(found.GetAdministratorDocument(), "\n"))
	}
	return c.show(a, "You have no configuration of your own", found.GetDocument())
}

func (c *choice) theirs(ctx context.Context, a kit.App, api *client.Client, document string) error {
	var found *apiv1.OperatorConfig
	if c.replace {
		resp, err := api.SetOperatorConfig(ctx, &apiv1.SetOperatorConfigRequest{OperatorId: c.user, Document: document})
		if err != nil {
			return err
		}
		found = resp.GetConfig()
	} else {
		resp, err := api.GetOperatorConfig(ctx, &apiv1.GetOperatorConfigRequest{OperatorId: c.user})
		if err != nil {
			return err
		}
		found = resp.GetConfig()
	}
	switch {
	case c.asJSON:
		return kit.WriteJSON(a.Stdout, map[string]any{
			"operator_id": c.user, "document": found.GetDocument(), "revision": found.GetRevision(),
		})
	case c.replace:
		return c.done(a, "the configuration of "+c.user, found.GetRevision(), document)
	}
	return c.show(a, "There is no configuration by administrators for "+c.user, found.GetDocument())
}

// done says what was changed.
func (c *choice) done(a kit.App, what string, revision int64, document string) error {
	verb := "set"
	if document == "" {
		verb = "removed"
	}
	_, err := fmt.Fprintf(a.Stdout, "%s: %s, revision %d; it applies from the next message\n", what, verb, revision)
	return err
}

// show prints a document as it can be given again, or on stderr that there is none.
func (c *choice) show(a kit.App, none, document string) error {
	if document == "" {
		_, err := fmt.Fprintf(a.Stderr, "kaged: %s; give a FILE to set one\n", none)
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, strings.TrimRight(document, "\n"))
	return err
}

// administrator returns a client of the gateway beside which this process runs. It signs in as the sign-in proxy does.
func administrator(a kit.App, p *kit.Places, url, user string) (*client.Client, error) {
	f, err := config.Load(p.Config.String())
	if err != nil {
		return nil, err
	}
	if f.System.AdminGroup == "" {
		return nil, fault.New(fault.BadRequest,
			"%s has no [system] admin_group, so that the deployment has no administrators.", p.Config)
	}
	nonce := f.Value("gateway", "sidecar_nonce", a.Getenv)
	if name := f.Value("gateway", "sidecar_nonce_file", a.Getenv); name != "" {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(p.Config.String()), name)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fault.Wrap(err, fault.BadRequest, "The nonce of the sign-in proxy in %s cannot be read: %s.", name,
				reason(err))
		}
		nonce = strings.TrimSpace(string(data))
	}
	if nonce == "" {
		return nil, fault.New(fault.BadRequest, "The nonce of the sign-in proxy is not set here; run this beside the "+
			"gateway, where KAGED_SERVICES_GATEWAY_SIDECAR_NONCE_FILE names it.")
	}
	base := cmp.Or(url, "http://"+cmp.Or(a.Getenv("KAGED_LISTEN"), config.DefaultListen))
	return client.New(base).WithHeaders(map[string]string{
		"X-Kaged-Auth-Nonce": nonce, "X-Kaged-User-Id": user, "X-Kaged-User-Groups": f.System.AdminGroup,
	}), nil
}
