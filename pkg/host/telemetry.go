package host

import (
	"context"
	"log/slog"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/telemetry"
)

// The defaults of [langfuse].
const (
	langfuseURL       = "https://cloud.langfuse.com"
	langfusePublicKey = "KAGED_LANGFUSE_PUBLIC_KEY"
	langfuseSecretKey = "KAGED_LANGFUSE_SECRET_KEY"
)

// StartTelemetry starts the traces and the metrics selected by the file and the environment. name is the name of the
// process; service is its only service, "" if it has several. It fails with bad_request, as [telemetry.Start] does. The
// caller stops the Kit.
func StartTelemetry(
	ctx context.Context, name, service string, file *config.File, log *slog.Logger, getenv func(string) string,
) (*telemetry.Kit, error) {
	opts := telemetry.Options{
		Service: name, Getenv: getenv, Log: log, Prompts: file.Telemetry.Prompts,
		MetricsListen: config.Or(getenv("KAGED_METRICS_LISTEN"), file.Telemetry.MetricsListen),
	}
	if service != "" {
		opts.MetricsListen = config.Or(file.Value(service, "metrics_listen", getenv), opts.MetricsListen)
	}
	if file.Langfuse.Enabled {
		opts.Langfuse = langfuse(file.Langfuse, getenv)
		if opts.Langfuse == nil {
			log.Info("Langfuse gets no traces: its keys are not in the environment")
		}
	}
	kit, err := telemetry.Start(ctx, opts)
	if err != nil {
		return nil, fault.From(err)
	}
	if kit.MetricsAddress != "" {
		log.Info("metrics are offered", "url", "http://"+kit.MetricsAddress+"/metrics")
	}
	return kit, nil
}

// langfuse returns the account, nil unless both keys are set.
func langfuse(c config.Langfuse, getenv func(string) string) *telemetry.Langfuse {
	l := &telemetry.Langfuse{
		BaseURL:   config.Or(c.BaseURL, langfuseURL),
		PublicKey: getenv(config.Or(c.PublicKeyEnv, langfusePublicKey)),
		SecretKey: getenv(config.Or(c.SecretKeyEnv, langfuseSecretKey)),
	}
	if l.PublicKey == "" || l.SecretKey == "" {
		return nil
	}
	return l
}
