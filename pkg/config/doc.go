// Package config reads local.toml, the operator's configuration.
//
// A [File] is strict: an unknown key, a value of the wrong type or a malformed target is an error with line and
// column. An absent file is an empty one. Values are kept as they were written: the consumer of a value resolves
// "${ENV}" references with [Expand], so that the file can be shown and edited without spilling secrets.
//
// Settings of services live in [services.<name>] tables; [Decode] fills a service's own Config struct from its table
// and from the environment, which wins: key a_b of service x-y is KAGED_SERVICES_X_Y_A_B.
package config
