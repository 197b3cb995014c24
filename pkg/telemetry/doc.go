// Package telemetry makes a process's log and, if configured, its traces and metrics.
//
// The log goes to stderr, as text or as JSON lines, and to <data>/log/<name>.log as JSON lines, rotated. Traces go to
// the OTLP collector in the standard OTEL_EXPORTER_OTLP_ENDPOINT, over gRPC or HTTP, and traces of agents also to
// Langfuse. Metrics go to the same collector, and Prometheus reads them at a separate address. The list of metrics is
// [All].
//
// An exporter never delays a process: spans and measurements wait in queues with a limit, and are dropped when these
// are full. Neither log nor traces hold secrets; traces hold prompts and answers only if the operator enables that.
package telemetry
