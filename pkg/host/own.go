package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"kaged.dev/pkg/config"
	"kaged.dev/pkg/fault"
	"kaged.dev/pkg/ownpath"
)

// Own returns kaged's own paths, which no agent may see or choose: the data directory, the configuration, the files of
// the service token, of the certificate, its key and other secrets, the operator's files of modules, and the sockets of
// modules, of the services they need and of those in the configuration, by the file or the environment, if they lie
// outside of the data directory. The zero Path omits an entry. It fails with bad_request for a path that cannot be
// resolved.
func Own(
	file *config.File, configPath, dataDir ownpath.Path, getenv func(string) string, modules ...Module,
) ([]ownpath.Path, error) {
	var own []ownpath.Path
	for _, p := range []ownpath.Path{dataDir, configPath} {
		if !p.IsZero() {
			own = append(own, p)
		}
	}
	token, err := tokenFile(file, getenv)
	if err != nil {
		return nil, err
	}
	if !token.IsZero() {
		own = append(own, token)
	}
	identity, nats := tlsFiles(file, getenv), natsFiles(file, getenv)
	secrets := []string{identity.Cert, identity.Key, nats.Credentials, nats.Cert, nats.Key}
	secrets = append(slices.DeleteFunc(secrets, func(name string) bool { return name == "" }), config.SecretFiles(
		getenv)...)
	for _, name := range secrets {
		secret, err := config.Resolve(name)
		if err != nil {
			return nil, err
		}
		known := func(p ownpath.Path) bool { return p.String() == secret.String() }
		if !slices.ContainsFunc(own, known) { // one certificate may serve for both
			own = append(own, secret)
		}
	}
	services := slices.Collect(maps.Keys(file.Services))
	for _, m := range modules {
		services = append(append(services, m.Name), m.Needs...)
		for _, f := range m.Files {
			path, err := f.place(file, m.Name, configPath, getenv)
			if err != nil {
				return nil, err
			}
			if !path.IsZero() {
				own = append(own, path)
			}
		}
	}
	slices.Sort(services)
	for _, name := range slices.Compact(services) {
		listen, address, err := place(file, name, getenv)
		if err != nil {
			return nil, err
		}
		if own, err = withSockets(own, append(listen, address)...); err != nil {
			return nil, err
		}
	}
	if own, err = withSockets(
		own, databaseSockets(config.Or(getenv("KAGED_DATABASE_URL"), file.Database.URL))...,
	); err != nil {
		return nil, err
	}
	if !dataDir.IsZero() && SocketPath(dataDir.String(), "x") != dataDir.Join("run", "x.sock") {
		short, err := config.Resolve(shortDir(dataDir.String()))
		if err != nil {
			return nil, err
		}
		own = append(own, short)
	}
	return own, nil
}

// place returns the path of a file, the zero Path if it is not configured.
func (f OperatorFile) place(
	file *config.File,
	service string,
	configPath ownpath.Path,
	getenv func(string) string,
) (ownpath.Path, error) {
	name := file.Value(service, f.Key, getenv)
	switch {
	case name != "":
		return config.Resolve(name)
	case f.Default == "" || configPath.IsZero():
		return ownpath.Path{}, nil
	}
	return config.Resolve(filepath.Join(filepath.Dir(configPath.String()), f.Default))
}

// databaseSockets returns the paths of the unix sockets in a Postgres connection string. It returns none for an invalid
// string, which is refused when the database is opened.
func databaseSockets(url string) (addresses []string) {
	if url == "" {
		return nil
	}
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil
	}
	add := func(host string, port uint16) {
		if filepath.IsAbs(host) {
			addresses = append(addresses, "unix:"+filepath.Join(host, fmt.Sprintf(".s.PGSQL.%d", port)))
		}
	}
	add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		add(f.Host, f.Port)
	}
	return addresses
}

// withSockets adds the unix sockets among addresses, each once, unless an entry of own contains them.
func withSockets(own []ownpath.Path, addresses ...string) ([]ownpath.Path, error) {
	for _, at := range addresses {
		path, isUnix := strings.CutPrefix(at, "unix:")
		if !isUnix {
			continue
		}
		socket, err := config.Resolve(path)
		if err != nil {
			return nil, err
		}
		held := func(p ownpath.Path) bool { return socket.Below(p) }
		if !slices.ContainsFunc(own, held) {
			own = append(own, socket)
		}
	}
	return own, nil
}

// place returns a service's listen addresses and its address for other processes, empty if unset; the path of a unix
// socket is absolute and without links.
func place(file *config.File, name string, getenv func(string) string) (listen []string, address string, err error) {
	listen, address, err = file.Place(name, getenv)
	if err != nil {
		return nil, "", err
	}
	places := []*string{&address}
	for i := range listen {
		places = append(places, &listen[i])
	}
	for _, at := range places {
		path, isUnix := strings.CutPrefix(*at, "unix:")
		if !isUnix {
			continue
		}
		real, err := config.Resolve(path)
		if err != nil {
			return nil, "", fault.Wrap(err, fault.BadRequest, "[services.%s]: %s", name, fault.From(err).Msg)
		}
		*at = "unix:" + real.String()
	}
	return listen, address, nil
}

// The length of a service token in characters.
const (
	minToken = 32
	maxToken = 4096
)

// tokenFile returns the path of the service token, the zero Path if it is not configured.
func tokenFile(file *config.File, getenv func(string) string) (ownpath.Path, error) {
	if name := getenv("KAGED_SERVICE_TOKEN_FILE"); name != "" {
		return config.Resolve(name)
	}
	name := file.Host.ServiceTokenFile
	if name == "" {
		return ownpath.Path{}, nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(file.Path), name)
	}
	return config.Resolve(name)
}

// serviceToken reads the token that identifies services of other containers, "" if no file is configured. It fails with
// bad_request for a file that cannot be read or holds no token.
func serviceToken(file *config.File, getenv func(string) string) (string, error) {
	path, err := tokenFile(file, getenv)
	if err != nil || path.IsZero() {
		return "", err
	}
	wrong := func(why string) error {
		return fault.New(
			fault.BadRequest,
			"The service token %s of KAGED_SERVICE_TOKEN_FILE %s; write one with `openssl rand -hex 32`.",
			path,
			why,
		)
	}
	info, err := os.Stat(path.String())
	switch {
	case err != nil:
		return "", fault.Wrap(err, fault.BadRequest, "%s", wrong("cannot be read").Error())
	case !info.Mode().IsRegular():
		return "", wrong("is not a regular file")
	case info.Size() > maxToken:
		return "", wrong(fmt.Sprintf("is longer than %d characters", maxToken))
	}
	data, err := os.ReadFile(path.String())
	if err != nil {
		return "", fault.Wrap(err, fault.BadRequest, "%s", wrong("cannot be read").Error())
	}
	token := strings.TrimSpace(string(data))
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", wrong("is not one line of printable ASCII")
	}
	if len(token) < minToken {
		return "", wrong(fmt.Sprintf("is shorter than %d characters", minToken))
	}
	return token, nil
}
