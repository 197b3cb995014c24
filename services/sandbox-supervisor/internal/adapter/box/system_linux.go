package box

import (
	"strconv"

	"kaged.dev/services/sandbox-supervisor/internal/blueprint"
	"kaged.dev/services/sandbox-supervisor/internal/netns"
)

// etc lists the visible names of /etc, for libraries, certificates, service names and the time zone. None of them
// reveals the host's users, services or secrets. The list is short because each folder costs a mount.
var etc = []string{
	"ld.so.cache", "alternatives", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted",
	"crypto-policies", "localtime", "timezone", "os-release", "debian_version", "redhat-release", "lsb-release",
	"profile", "bash.bashrc", "inputrc", "mime.types",
	"services", "protocols", "gai.conf", "host.conf", "locale.alias", "locale.conf", "fonts", "maven",
	"java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "java-25-openjdk",
}

// texts returns the generated files of a cage, by path. user holds the ids inside.
func texts(user ids) map[string]string {
	uid, gid := strconv.Itoa(user.uid), strconv.Itoa(user.gid)
	return map[string]string{
		"/etc/passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n" +
			blueprint.User + ":x:" + uid + ":" + gid + "::" + blueprint.Home + ":/bin/sh\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"/etc/group":         "root:x:0:\n" + blueprint.User + ":x:" + gid + ":\nnogroup:x:65534:\n",
		"/etc/hosts":         netns.Hosts("cage"),
		"/etc/hostname":      "cage\n",
		"/etc/resolv.conf":   netns.ResolvConf,
		"/etc/nsswitch.conf": netns.Nsswitch,
		"/etc/mtab":          "",
		"/etc/machine-id":    "",
	}
}
