package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// maxSocketPath is the maximum length of a path in a socket address, without its final NUL.
const maxSocketPath = 107

// paths are the paths of one cluster.
type paths struct {
	root    string // <data>/postgres
	data    string // the cluster
	fresh   string // an incomplete cluster
	creds   string
	log     string
	run     string // the socket's folder
	short   bool   // run is outside root
	starter string // locked by the process that starts the server
	server  string // locked by the server and its children
}

func pathsIn(dataDir string) paths {
	root := filepath.Join(dataDir, "postgres")
	p := paths{
		root: root, data: filepath.Join(root, "data"), fresh: filepath.Join(root, "data.new"),
		creds: filepath.Join(root, "credentials.json"),
		log:   filepath.Join(dataDir, "log", "postgres.log"), run: filepath.Join(root, "run"),
		starter: filepath.Join(root, "starter.lock"), server: filepath.Join(root, "server.lock"),
	}
	if len(filepath.Join(p.run, socketName+".lock")) > maxSocketPath {
		sum := sha256.Sum256([]byte(root))
		p.run, p.short = filepath.Join(os.TempDir(), "kaged-pg-"+hex.EncodeToString(sum[:8])), true
	}
	return p
}

const socketName = ".s.PGSQL." + port

// make creates the folders. The short one is in a folder where other users may write, so it must be new or belong to
// this user.
func (p paths) make() error {
	for _, dir := range []string{p.root, filepath.Dir(p.log)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return failed(err, "The folder %s cannot be made.", dir)
		}
	}
	err := os.Mkdir(p.run, 0o700)
	if err == nil || !os.IsExist(err) {
		if err != nil {
			return failed(err, "The folder %s cannot be made.", p.run)
		}
		return nil
	}
	info, err := os.Lstat(p.run)
	if err != nil || !info.IsDir() || (p.short && info.Mode().Perm() != 0o700) || !ours(info, p) {
		return conflict(err, "%s is not a folder that only kaged can write; remove it.", p.run)
	}
	return nil
}

// ours reports whether a folder belongs to this user, to root or to the owner of the cluster.
func ours(info os.FileInfo, p paths) bool {
	uid, ok := ownerOf(info)
	if !ok || uid == os.Geteuid() {
		return true
	}
	// An earlier start as root has given the folder to the server's account.
	root, err := os.Lstat(p.data)
	if err != nil {
		return !p.short
	}
	clusterUID, _ := ownerOf(root)
	return os.Geteuid() == 0 && uid == clusterUID
}

// removeShort removes the folder outside the data directory; it is empty after a clean end of the server.
func (p paths) removeShort() {
	if p.short {
		_ = os.Remove(p.run)
	}
}
