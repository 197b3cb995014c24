// Package certs is `kaged certs`: the certificates with which services on several hosts identify each other.
package certs

import (
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/mtls"
	"kaged.dev/pkg/mtls/authority"
	"kaged.dev/services/kaged/internal/cli/kit"
)

const day = 24 * time.Hour

// Command is the group of commands about certificates.
func Command(a kit.App) *cobra.Command {
	cmd := kit.Group("certs", "Make the certificates of services on several hosts")
	cmd.AddCommand(initialize(a), issue(a), debug(a))
	return cmd
}

func initialize(a kit.App) *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use:   "init DIR",
		Short: "Make a CA in a folder",
		Long: "Makes the CA of a deployment: DIR/ca.crt and DIR/ca.key. Anyone with ca.key can act as any\n" +
			"service: keep the folder on a machine that runs no service, and give each service only its own\n" +
			"folder below it.",
		Example: "  kaged certs init ~/kaged-ca",
		Args:    kit.Takes(1, 1),
		RunE: func(cmd *cobra.Command, list []string) error {
			valid, err := span(cmd, "days", days)
			if err != nil {
				return err
			}
			if err := authority.Init(list[0], valid, time.Now()); err != nil {
				return err
			}
			fmt.Fprintf(a.Stderr, "kaged: the CA is valid until %s; next: kaged certs issue %s SERVICE\n",
				time.Now().Add(valid).UTC().Format(time.DateOnly), list[0])
			_, err = fmt.Fprintln(a.Stdout, filepath.Join(list[0], authority.CACert))
			return err
		},
	}
	cmd.Flags().IntVar(&days, "days", 3650, "how many days the CA is valid")
	return cmd
}

func issue(a kit.App) *cobra.Command {
	var days int
	var workspace string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "issue DIR SERVICE",
		Short: "Make the certificate of a service",
		Long: "Makes a certificate for SERVICE with the CA in DIR, in DIR/SERVICE: ca.crt, tls.crt and " +
			"tls.key,\n" +
			"which [tls] ca_file, cert_file and key_file name. Existing files are replaced; a running service\n" +
			"loads new ones within 10 s. The services are\n" +
			strings.Join(mtls.Services(), ", ") + ".\n" +
			"postgres and nats get a server certificate for the names in --host.",
		Example: "  kaged certs issue ~/kaged-ca session-manager\n  kaged certs issue ~/kaged-ca tool-runner --workspace " +
			"blue\n" +
			"  kaged certs issue ~/kaged-ca nats --host nats.internal",
		Args: kit.Takes(2, 2),
		RunE: func(cmd *cobra.Command, list []string) error {
			valid, err := span(cmd, "days", days)
			if err != nil {
				return err
			}
			r := authority.Request{Identity: mtls.Identity{Service: list[1], Workspace: workspace}, Valid: valid, Hosts: hosts}
			switch store := slices.Contains(authority.Stores, list[1]); {
			case list[1] == mtls.Debug:
				return kit.Misused(cmd, "a debugging certificate is made with `kaged certs debug %s`", list[0])
			case !store && len(hosts) > 0:
				return kit.Misused(cmd, "--host is only for postgres and nats: the certificate of %s holds "+
					"the service's name in place of an address", list[1])
			case store && workspace != "":
				return kit.Misused(cmd, "%s belongs to no workspace", list[1])
			case store:
				r.Identity, r.Store = mtls.Identity{}, list[1]
			default:
				if err := r.Identity.Check(); err != nil {
					return kit.Misused(cmd, "%s", err)
				}
			}
			return sign(a, list[0], r)
		},
	}
	cmd.Flags().StringVar(&workspace, "workspace", "",
		"the name of the service's workspace, if workspaces have names")
	cmd.Flags().IntVar(&days, "days", 90, "how many days the certificate is valid")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "a further name or address of postgres or nats")
	return cmd
}

// maxDebug is the maximum validity of a debugging certificate, because it allows every call.
const maxDebug = 7 * day

func debug(a kit.App) *cobra.Command {
	var valid time.Duration
	cmd := &cobra.Command{
		Use:   "debug DIR",
		Short: "Make a certificate that lets grpcurl call every RPC",
		Long: "Makes a debugging certificate with the CA in DIR, in DIR/debug. It may call each RPC of each service; " +
			"services log\n" +
			"each such call, and session-manager puts it into the audit record. See docs/howto/debug-with-grpcurl.md.",
		Example: "  kaged certs debug ~/kaged-ca --valid 1h",
		Args:    kit.Takes(1, 1),
		RunE: func(cmd *cobra.Command, list []string) error {
			if valid <= 0 || valid > maxDebug {
				return kit.Misused(cmd, "--valid is %s and must be more than 0 and at most %s", valid, maxDebug)
			}
			return sign(a, list[0], authority.Request{
				Identity: mtls.Identity{Service: mtls.Debug}, Valid: valid, Name: "debugging by " + operator(),
			})
		},
	}
	cmd.Flags().DurationVar(&valid, "valid", day, "how long the certificate is valid, at most 168h")
	return cmd
}

// operator returns the name of the user at the terminal. Records of calls with a debugging certificate have it.
func operator() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return u.Username
}

func sign(a kit.App, dir string, r authority.Request) error {
	ca, err := authority.Open(dir)
	if err != nil {
		return err
	}
	made, until, err := ca.Issue(r, time.Now())
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "kaged: %s is valid until %s\n", filepath.Join(made, authority.Cert), until.UTC().Format(
		time.DateTime))
	_, err = fmt.Fprintln(a.Stdout, made)
	return err
}

// span returns the value of a flag in days.
func span(cmd *cobra.Command, flag string, days int) (time.Duration, error) {
	if days < 1 || days > 36500 {
		return 0, kit.Misused(cmd, "--%s is %d and must be from 1 to 36500", flag, days)
	}
	return time.Duration(days) * day, nil
}
