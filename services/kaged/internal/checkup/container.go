package checkup

import (
	"context"

	"kaged.dev/pkg/config"
)

// Container is the kaged image that this process runs in, the value of KAGED_CONTAINER, which the images set; empty
// outside the images.
type Container string

// The images.
const (
	// ControlPlane has the gateway, session-manager and the harness, each in its own container.
	ControlPlane Container = "control-plane"
	// Workspace has tool-runner and sandbox-supervisor, which run the agents' commands.
	Workspace Container = "workspace"
)

// ContainerOf returns the image that an environment names.
func ContainerOf(getenv func(string) string) Container {
	switch c := Container(getenv("KAGED_CONTAINER")); c {
	case ControlPlane, Workspace:
		return c
	}
	return ""
}

// KeysElsewhere reports whether another container has the keys of providers: only session-manager has them, and only
// its environment has the database's address.
func KeysElsewhere(getenv func(string) string) bool {
	return ContainerOf(getenv) != "" && getenv("KAGED_DATABASE_URL") == "" && getenv("KAGED_DATABASE_URL_FILE") == ""
}

// MissingKey returns the way to set a variable that a provider refers to.
func MissingKey(getenv func(string) string, name string) string {
	if ContainerOf(getenv) != "" {
		return "set " + name + " in .env, then: docker compose up -d"
	}
	return "export " + name + "=..., where `kaged up` or `kaged run` is started"
}

// elsewhere is the place of cages in a report of a container of the control plane.
const elsewhere = "in the workspace's container; to check there: docker compose exec sandbox-supervisor kaged " +
	"doctor"

// contained returns the checks of one of kaged's containers, of its own parts only.
func (m Machine) contained(ctx context.Context) Report {
	var r Report
	file, read := m.configuration()
	r.Checks = []Check{m.dataDir(ctx), read}
	if m.Container == Workspace {
		r.Cages = m.cages(ctx)
		r.Checks = append(r.Checks, git(ctx))
	} else {
		r.Cages = Cages{Elsewhere: elsewhere, Layers: []Layer{}}
		r.Checks = append(r.Checks, m.models(file)...)
		r.Checks = append(r.Checks, m.peers(ctx))
	}
	for i, c := range r.Checks {
		switch {
		case c.Name == "data directory" && c.State == Missing:
			r.Checks[i].Fix = "docker compose up -d, which gives the volumes to KAGED_UID"
		case c.Name == "git" && c.Fix != "":
			r.Checks[i].Fix = "an image of your own, FROM kaged-workspace; see deploy/Dockerfile"
		}
	}
	return r
}

// peers checks whether this container can reach the others that it needs.
func (m Machine) peers(ctx context.Context) Check {
	c := Check{Name: "services", State: OK}
	switch {
	case m.Gateway != nil && m.Gateway(ctx):
		c.Detail = "the gateway answers at " + m.Listen
	case m.Getenv(config.EnvName("services", "gateway", "listen")) != "":
		c.Detail = "each in a container of its own; docker compose ps lists them"
	case m.Getenv("KAGED_DATABASE_URL") != "":
		c.Detail = "all in one process: kaged up"
	default:
		c.State = Missing
		c.Detail = "this container runs alone, without PostgreSQL, NATS and a workspace"
		c.Fix = "docker compose up -d --wait, in the folder of docker-compose.yml; or KAGED_DATABASE_URL and " +
			"KAGED_NATS_URL, and kaged up"
	}
	return c
}
