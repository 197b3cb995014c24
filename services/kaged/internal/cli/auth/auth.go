// Package auth is `kaged auth`.
package auth

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	"kaged.dev/services/kaged/internal/cli/kit"
)

func Command(a kit.App, p *kit.Places) *cobra.Command {
	cmd := kit.Group("auth", "Sign browsers in and out")
	cmd.AddCommand(
		&cobra.Command{
			Use: "launch", Short: "Print a fresh launch URL; it signs one browser in", Args: kit.Nothing,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return withGateway(cmd.Context(), a, p, func(g gatewayv1.GatewayServiceClient) error {
					resp, err := g.IssueLaunch(cmd.Context(), &gatewayv1.IssueLaunchRequest{})
					return printURL(a, resp, err)
				})
			},
		},
		&cobra.Command{
			Use: "rotate", Short: "Sign every browser out and print a fresh launch URL", Args: kit.Nothing,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return withGateway(cmd.Context(), a, p, func(g gatewayv1.GatewayServiceClient) error {
					resp, err := g.RotateAuth(cmd.Context(), &gatewayv1.RotateAuthRequest{})
					return printURL(a, resp, err)
				})
			},
		},
	)
	return cmd
}

func printURL(a kit.App, resp interface{ GetUrl() string }, err error) error {
	if err != nil {
		return kit.Exit(kit.ExitFailed, err) // the user did not type the missing name
	}
	_, err = fmt.Fprintln(a.Stdout, resp.GetUrl())
	return err
}

// withGateway calls the running gateway over a socket that only the operator can open.
func withGateway(ctx context.Context, a kit.App, p *kit.Places, use func(gatewayv1.GatewayServiceClient) error) error {
	running, err := a.Gateway(
		ctx,
		p,
		func(conn grpc.ClientConnInterface) error { return use(gatewayv1.NewGatewayServiceClient(conn)) },
	)
	if err == nil && !running {
		return fault.New(fault.Unavailable, "No daemon runs on %s; start one with `kaged up`.", p.DataDir)
	}
	return err
}
