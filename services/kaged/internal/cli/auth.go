package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
)

func (a App) auth(p *places) *cobra.Command {
	cmd := group("auth", "Sign browsers in and out")
	cmd.AddCommand(
		&cobra.Command{
			Use: "launch", Short: "Print a fresh launch URL; it signs one browser in", Args: nothing,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withGateway(cmd.Context(), p, func(g gatewayv1.GatewayServiceClient) error {
					resp, err := g.IssueLaunch(cmd.Context(), &gatewayv1.IssueLaunchRequest{})
					return a.printURL(resp, err)
				})
			},
		},
		&cobra.Command{
			Use: "rotate", Short: "Sign every browser out and print a fresh launch URL", Args: nothing,
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withGateway(cmd.Context(), p, func(g gatewayv1.GatewayServiceClient) error {
					resp, err := g.RotateAuth(cmd.Context(), &gatewayv1.RotateAuthRequest{})
					return a.printURL(resp, err)
				})
			},
		},
	)
	return cmd
}

func (a App) printURL(resp interface{ GetUrl() string }, err error) error {
	if err != nil {
		return &exitError{exitFailed, err} // whatever is not found was not named by the command line
	}
	_, err = fmt.Fprintln(a.Stdout, resp.GetUrl())
	return err
}

// withGateway calls the running gateway, over a socket that only the operator can open.
func (a App) withGateway(ctx context.Context, p *places, use func(gatewayv1.GatewayServiceClient) error) error {
	running, err := a.gateway(ctx, p, func(conn grpc.ClientConnInterface) error { return use(gatewayv1.NewGatewayServiceClient(conn)) })
	if err == nil && !running {
		return fault.New(fault.Unavailable, "No daemon runs on %s; start one with `kaged up`.", p.dataDir)
	}
	return err
}
