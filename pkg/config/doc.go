// Package config reads local.toml, the operator's configuration.
//
// A [File] is strict: an unknown key, a value of the wrong type or a malformed target is an error with line and column.
// A missing file counts as empty. Values keep "${ENV}" references as written; the consumer of a value resolves them
// with [Expand]. The file can therefore be shown and edited without revealing secrets.
//
// Settings of services live in [services.<name>] tables; [Decode] fills a service's own Config struct from its table
// and from the environment, which has priority: key a_b of service x-y is KAGED_SERVICES_X_Y_A_B.
package config
