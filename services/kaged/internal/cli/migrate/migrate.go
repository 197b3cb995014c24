// Package migrate is `kaged migrate`: it updates the schemas of Postgres before services start.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/host"
	"kaged.dev/pkg/postgres"
	"kaged.dev/pkg/retry"
	"kaged.dev/services/kaged/internal/cli/kit"
)

// pauses are the pauses between tries while the database is unavailable.
var pauses = retry.Pauses{First: 100 * time.Millisecond, Last: 2 * time.Second}

// Command returns `kaged migrate`.
func Command(a kit.App, p *kit.Places) *cobra.Command {
	var wait, dry bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database's schemas up to date",
		Long: "Runs the missing migrations as the user of [database] url (KAGED_DATABASE_URL), and exits. " +
			"Each\n" +
			"migration is applied completely or not at all. Services that have only app_url\n" +
			"(KAGED_DATABASE_APP_URL) never migrate, and are not ready before the migrations have run. If no\n" +
			"migration is missing, it exits 0. Several may run at once: one works and the others wait.",
		Example: "  kaged migrate --dry-run\n  KAGED_DATABASE_URL_FILE=/run/secrets/database/url kaged migrate --wait",
		Args:    kit.Nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := config.Load(p.Config.String())
			if err != nil {
				return err
			}
			m := migration{a, postgres.Config{
				OwnerURL: config.Or(a.Getenv("KAGED_DATABASE_URL"), file.Database.URL),
				URL:      config.Or(a.Getenv("KAGED_DATABASE_APP_URL"), file.Database.AppURL),
				Log:      slog.New(slog.DiscardHandler),
			}, dry}
			if m.cfg.OwnerURL == "" {
				return fault.New(fault.BadRequest, "Set the URL of the database's owner: KAGED_DATABASE_URL, "+
					"KAGED_DATABASE_URL_FILE, or [database] url in the configuration. `kaged up` migrates its "+
					"own database.")
			}
			if !wait {
				return m.run(cmd.Context())
			}
			return m.retry(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for a database that does not answer yet")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only print the missing migrations")
	return cmd
}

type migration struct {
	a   kit.App
	cfg postgres.Config
	dry bool
}

// retry tries until the database answers or ctx ends.
func (m migration) retry(ctx context.Context) (err error) {
	said := ""
	for range pauses.Each(ctx) {
		if err = m.run(ctx); !errors.Is(err, fault.Unavailable) || ctx.Err() != nil {
			break
		}
		if why := fault.From(err).Msg; why != said {
			said = why
			fmt.Fprintf(m.a.Stderr, "kaged: waiting for the database: %s\n", why)
		}
	}
	return err
}

// run updates each schema.
func (m migration) run(ctx context.Context) error {
	for _, module := range m.a.Modules {
		if module.Schema.Name == "" {
			continue
		}
		if err := m.one(ctx, module.Schema); err != nil {
			return err
		}
	}
	return nil
}

func (m migration) one(ctx context.Context, s host.Schema) error {
	plan, err := postgres.PlanOf(ctx, m.cfg, s.Files, s.Name)
	if err != nil {
		return err
	}
	verb := "ran"
	if m.dry {
		verb = "would run"
	} else if err := postgres.Migrate(ctx, m.cfg, s.Files, s.Name); err != nil {
		return err
	}
	if len(plan.Pending) == 0 {
		fmt.Fprintf(m.a.Stdout, "%s: %d migrations, nothing to do\n", s.Name, plan.Version)
	}
	for _, name := range plan.Pending {
		fmt.Fprintf(m.a.Stdout, "%s: %s %s\n", s.Name, verb, name)
	}
	return nil
}
