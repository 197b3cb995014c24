package cli

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/services/kaged/internal/daemon"
)

// answerTimeout bounds how long a gateway in a process of its own may take to say that it is there.
const answerTimeout = 2 * time.Second

// gateway calls use with a connection to the gateway that runs here: a daemon's on the data directory, which is waited for
// while it starts, or one in a process of its own where the configuration says. It reports whether there is one.
func (a App) gateway(ctx context.Context, p *places, use func(grpc.ClientConnInterface) error) (running bool, err error) {
	_, running, err = daemon.Find(ctx, p.dataDir.String())
	if err != nil {
		return false, err
	}
	file, err := config.Load(p.config.String())
	if err != nil {
		return false, err
	}
	elsewhere, err := host.NewElsewhere(file, p.dataDir, a.Getenv)
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

// gatewayAnswers reports whether a gateway in a process of its own answers where the configuration says.
func (a App) gatewayAnswers(ctx context.Context, p *places) bool {
	file, err := config.Load(p.config.String())
	if err != nil {
		return false
	}
	elsewhere, err := host.NewElsewhere(file, p.dataDir, a.Getenv)
	if err != nil {
		return false
	}
	defer elsewhere.Close()
	there, err := answers(ctx, elsewhere.Dial("gateway"))
	return there && err == nil
}

// answers reports whether a gateway serves. It fails where one is there and refuses this process.
func answers(ctx context.Context, conn grpc.ClientConnInterface) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if errors.Is(err, fault.Forbidden) || errors.Is(err, fault.Unauthenticated) {
		return false, err
	}
	return err == nil, nil
}
