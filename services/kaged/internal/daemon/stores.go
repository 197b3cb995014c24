package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	busembedded "kaged.dev/pkg/bus/embedded"
	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	pgembedded "kaged.dev/pkg/postgres/embedded"
)

// storeStop is the time limit for the embedded Postgres to stop; committed data is safe in any case.
const storeStop = 10 * time.Second

// stores are the stores of a daemon: their addresses, and the servers that the daemon started.
type stores struct {
	database host.Database
	nats     host.NATS

	embedded pgembedded.Options
	postgres *pgembedded.Server // nil for an external database; keep replaces it
	bus      *busembedded.Server
	log      *slog.Logger
}

// openStores starts the embedded stores in parallel. The caller closes them.
func openStores(ctx context.Context, opts Options, file *config.File, log *slog.Logger) (*stores, error) {
	s := &stores{
		log: log,
		embedded: pgembedded.Options{
			DataDir: opts.DataDir.String(),
			Log:     log.With("service", "postgres"),
			Getenv:  opts.Getenv,
		},
		database: host.Database{
			OwnerURL: config.Or(opts.DatabaseURL, file.Database.URL),
			URL:      config.Or(opts.DatabaseAppURL, file.Database.AppURL),
		},
		nats: host.NATS{URL: config.Or(opts.NATSURL, file.NATS.URL)},
	}
	if err := reachable(ctx, s); err != nil {
		return nil, err
	}
	var start errgroup.Group
	if s.database.OwnerURL == "" {
		start.Go(func() (err error) {
			s.postgres, err = pgembedded.Start(ctx, s.embedded)
			return err
		})
	}
	if s.nats.URL == "" {
		start.Go(func() (err error) {
			s.bus, err = busembedded.Start(busembedded.Options{
				StoreDir: opts.DataDir.Join("nats"), Log: log.With("service", "nats"),
				MaxStore: file.NATS.MaxStore, MaxMemory: file.NATS.MaxMemory,
			})
			return err
		})
	}
	if err := start.Wait(); err != nil {
		s.close()
		return nil, err
	}
	if s.postgres != nil {
		s.database = host.Database{OwnerURL: s.postgres.OwnerURL(), URL: s.postgres.URL(), Embedded: true}
	}
	if s.bus != nil {
		s.nats.InProcess = s.bus
	}
	return s, nil
}

// reachTimeout is the time limit for the first check of an external store.
const reachTimeout = 5 * time.Second

// reachable refuses a start if external stores do not answer. Services wait for their stores, which is right if all
// start at once, but does not help a person who mistyped an address.
func reachable(ctx context.Context, s *stores) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if s.database.OwnerURL != "" {
		conn, err := pgx.Connect(ctx, s.database.OwnerURL)
		if err != nil {
			return fault.Wrap(err, fault.Unavailable, "The database of --database-url cannot be reached; check the address, "+
				"or leave it out for a private one.").
				With("subsystem", "storage")
		}
		_ = conn.Close(ctx)
	}
	if s.nats.URL != "" {
		conn, err := nats.Connect(s.nats.URL, nats.Timeout(reachTimeout))
		if err != nil {
			return fault.Wrap(err, fault.Unavailable, "The NATS of --nats-url cannot be reached; check the address, or leave "+
				"it out for the embedded one.").
				With("subsystem", "bus")
		}
		conn.Close()
	}
	return nil
}

// shortLife and shortLives bound the restarts of the embedded Postgres: [stores.keep] gives up after it has ended
// more than shortLives times in a row within shortLife of its start.
const (
	shortLife  = 30 * time.Second
	shortLives = 3
)

// keep starts the embedded Postgres again whenever it ends by itself, until ctx ends. Usually the kernel killed it
// because memory ran out. Committed data survives, and services find Postgres at the same address. keep fails with
// unavailable if a start fails or Postgres ends too often.
func (s *stores) keep(ctx context.Context) error {
	if s.postgres == nil {
		return nil
	}
	for lives := 0; ; {
		began := time.Now()
		select {
		case <-s.postgres.Done():
		case <-ctx.Done():
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		ended := s.postgres.Err()
		if lives++; time.Since(began) >= shortLife {
			lives = 1
		}
		if lives > shortLives {
			return fault.Wrap(ended, fault.Unavailable, "The embedded Postgres ends by itself again and again; its log is in "+
				"the data directory.").
				With("subsystem", "storage")
		}
		s.log.Warn("the embedded Postgres ended by itself and is started again", "error", ended)
		_ = s.postgres.Stop(ctx) // releases its locks
		again, err := pgembedded.Start(ctx, s.embedded)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case err != nil:
			return fault.Wrap(err, fault.Unavailable, "The embedded Postgres ended by itself and cannot be started again; "+
				"its log is in the data directory.").
				With("subsystem", "storage")
		}
		s.postgres = again
	}
}

func (s *stores) close() {
	if s.bus != nil {
		s.bus.Stop()
	}
	if s.postgres != nil {
		ctx, cancel := context.WithTimeout(context.Background(), storeStop)
		defer cancel()
		if err := s.postgres.Stop(ctx); err != nil {
			s.log.Warn("stopping postgres", "error", err)
		}
	}
}
