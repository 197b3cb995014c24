package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/rpc"
	gatewayv1 "kaged.dev/proto/gen/kaged/gateway/v1"
	"kaged.dev/services/kaged/internal/daemon"
)

func (a App) auth(p *places) *cobra.Command {
	cmd := &cobra.Command{
		Use: "auth", Short: "Sign browsers in and out", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "launch", Short: "Print a fresh launch URL; it signs one browser in", Args: args(cobra.NoArgs),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withGateway(p, func(g gatewayv1.GatewayServiceClient) error {
					resp, err := g.IssueLaunch(cmd.Context(), &gatewayv1.IssueLaunchRequest{})
					if err == nil {
						fmt.Fprintln(a.Stdout, resp.GetUrl())
					}
					return err
				})
			},
		},
		&cobra.Command{
			Use: "rotate", Short: "Sign every browser out and print a fresh launch URL", Args: args(cobra.NoArgs),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return a.withGateway(p, func(g gatewayv1.GatewayServiceClient) error {
					resp, err := g.RotateAuth(cmd.Context(), &gatewayv1.RotateAuthRequest{})
					if err == nil {
						fmt.Fprintln(a.Stdout, resp.GetUrl())
					}
					return err
				})
			},
		},
	)
	return cmd
}

// withGateway calls the running daemon's gateway over its unix socket.
func (a App) withGateway(p *places, use func(gatewayv1.GatewayServiceClient) error) error {
	if _, running, err := daemon.Find(p.dataDir); err != nil || !running {
		if err == nil {
			err = fault.New(fault.Unavailable, "No daemon runs on %s; start one with `kaged up`.", p.dataDir)
		}
		return err
	}
	conn, err := grpc.NewClient("unix:"+host.SocketPath(p.dataDir, "gateway"), rpc.DialOptions()...)
	if err != nil {
		return fault.Wrap(err, fault.Unavailable, "The daemon's socket cannot be used.")
	}
	defer conn.Close()
	return use(gatewayv1.NewGatewayServiceClient(conn))
}
