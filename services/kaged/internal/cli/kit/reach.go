package kit

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/client"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/services/kaged/internal/daemon"
)

// answerTimeout is the time limit for a gateway in another process to answer.
const answerTimeout = 2 * time.Second

// Gateway calls use with a connection to the gateway on this machine: that of a daemon on the data directory, for which
// it waits while the daemon starts, or one in another process at the configured address. It reports whether there is
// one.
func (a App) Gateway(
	ctx context.Context,
	p *Places,
	use func(grpc.ClientConnInterface) error,
) (running bool, err error) {
	_, running, err = daemon.Find(ctx, p.DataDir.String())
	if err != nil {
		return false, err
	}
	file, err := config.Load(p.Config.String())
	if err != nil {
		return false, err
	}
	elsewhere, err := host.NewElsewhere(file, p.DataDir, a.Getenv)
	if err != nil {
		return false, err
	}
	defer elsewhere.Close()
	conn := elsewhere.Dial("gateway")
	if !running {
		if running, err = answers(ctx, conn); !running {
			return false, err
		}
	}
	return true, use(conn)
}

// GatewayAnswers reports whether a gateway in another process answers at the configured address.
func (a App) GatewayAnswers(ctx context.Context, p *Places) bool {
	file, err := config.Load(p.Config.String())
	if err != nil {
		return false
	}
	elsewhere, err := host.NewElsewhere(file, p.DataDir, a.Getenv)
	if err != nil {
		return false
	}
	defer elsewhere.Close()
	there, err := answers(ctx, elsewhere.Dial("gateway"))
	return there && err == nil
}

// answers reports whether a gateway serves. It fails if a gateway refuses this process.
func answers(ctx context.Context, conn grpc.ClientConnInterface) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if errors.Is(err, fault.Forbidden) || errors.Is(err, fault.Unauthenticated) {
		return false, err
	}
	return err == nil, nil
}

// TokenVariable is the variable with the API token for a daemon that --url names.
const TokenVariable = "KAGED_TOKEN"

func AddURL(cmd *cobra.Command, address *string) {
	cmd.Flags().
		StringVar(address, "url", "", "the URL of another daemon, which needs no sign-in or accepts the token "+
			"in KAGED_TOKEN (default: the daemon of the data directory)")
}

// Api calls use with a signed-in client of the running daemon, at address if it is set. It fails with unavailable
// without a daemon.
func (a App) Api(cmd *cobra.Command, p *Places, address string, use func(context.Context, *client.Client) error) error {
	ctx := cmd.Context()
	if err := UrlFlag(cmd, address); err != nil {
		return err
	}
	if address != "" {
		c := client.New(address).WithToken(a.Getenv(TokenVariable))
		defer c.Close()
		if err := c.Bootstrap(ctx); err != nil {
			return err
		}
		return use(ctx, c)
	}
	running, err := a.Gateway(ctx, p, func(conn grpc.ClientConnInterface) error {
		c, err := client.SignInWith(ctx, conn)
		if err != nil {
			return err
		}
		defer c.Close()
		return use(ctx, c)
	})
	if err == nil && !running {
		return fault.New(fault.Unavailable, "No daemon runs on %s; start one with `kaged up`.", p.DataDir)
	}
	return err
}
