// Package telemetry makes a process's log and, where they are asked for, its traces and metrics.
//
// The log goes to stderr, as text for people or as JSON lines, and to <data>/log/<name>.log as JSON lines, rotated.
// Traces go to an OTLP collector where the standard OTEL_EXPORTER_OTLP_ENDPOINT names one, over gRPC or HTTP, and those
// of agents to Langfuse. Metrics go to the same collector, and to Prometheus at an address of their own. The list of
// metrics is [All].
//
// An exporter never touches the work of a process: spans and measurements wait in bounded queues, and are dropped when
// those are full. Neither log nor traces hold secrets; traces hold prompts and answers only where the operator asks for
// that.
package telemetry
