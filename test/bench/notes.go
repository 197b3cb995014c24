package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

// The notes of a long-lived project: one for each service, subject and place. Every word of a title is in hundreds of
// notes; only all words together identify one.
var (
	noteServices = strings.Fields(`billing ledger gateway search checkout inventory notifications scheduler authentication
		profiles payments shipping catalog pricing recommendations analytics reporting warehouse messaging webhooks uploads
		thumbnails moderation subscriptions invoicing onboarding telemetry dashboards exports imports replication archiving
		entitlements referrals loyalty fraud tax currency geocoding translations`)
	notePlaces  = strings.Fields(`production staging canary frankfurt virginia singapore sandbox mobile partners nightly`)
	notePeople  = strings.Fields(`Amara Bjorn Chen Dalia Emre Fatima Goran Hana Ivan Jun Kwame Lena Marta Nadia Omar`)
	noteFolders = strings.Fields(`decisions incidents runbooks howto owners`)
)

// noteSubject is the subject of a note: its title, its fact with the service, the place and a number, and its
// questions, in the words of the note and in other forms of them.
type noteSubject struct{ title, fact, asked, inflected, name string }

var noteSubjects = []noteSubject{
	{
		"Retry limit", "Failed calls of %[1]s are retried %[3]d times in %[2]s before the circuit opens.",
		"how many times are failed calls of %s retried in %s", "retrying a failure of %s at %s", "retryLimit",
	},
	{
		"Connection pool", "In %[2]s the pool of %[1]s holds %[3]d connections to the primary.",
		"connections in the pool of %s in %s", "pooled connection count of %s, %s", "poolConnections",
	},
	{
		"Request timeout", "Requests to %[1]s time out after %[3]d ms in %[2]s.",
		"after how long do requests to %s time out in %s", "timeouts of a request for %s on %s", "requestTimeout",
	},
	{
		"Cache expiry", "Cached answers of %[1]s expire after %[3]d seconds in %[2]s.",
		"when do cached answers of %s expire in %s", "expiration of caches, %s in %s", "cacheExpiry",
	},
	{
		"Deployment window", "We deploy %[1]s to %[2]s at %[3]d:30 and never on a Friday.", "deployment window of %s in %s",
		"deploying %s on %s", "deploymentWindow",
	},
	{
		"Backup retention", "Backups of %[1]s in %[2]s are retained for %[3]d days.",
		"how long are backups of %s retained in %s", "retaining a backup for %s in %s", "backupRetention",
	},
	{
		"Key rotation", "Signing keys of %[1]s rotate every %[3]d days in %[2]s.",
		"how often do signing keys of %s rotate in %s", "rotating the signing key for %s (%s)", "keyRotation",
	},
	{
		"Rate limit", "Clients of %[1]s may send %[3]d requests a second in %[2]s.",
		"requests a second clients may send to %s in %s", "rate limiting of the client in %s, %s", "rateLimit",
	},
	{
		"Log sampling", "One in %[3]d log lines of %[1]s is sampled in %[2]s.", "how are log lines of %s sampled in %s",
		"sampling of logs for %s in %s", "logSampling",
	},
	{
		"Feature flag", "The flag for the new flow of %[1]s is on for %[3]d percent in %[2]s.",
		"flag for the new flow of %s in %s", "flagged flows of %s within %s", "featureFlag",
	},
	{
		"Schema migration", "Migrating the schema of %[1]s in %[2]s locked a table for %[3]d minutes.",
		"migrating the schema of %s in %s", "schema migrations of %s on %s", "schemaMigration",
	},
	{
		"Alert threshold", "The alert of %[1]s fires above %[3]d errors a minute in %[2]s.",
		"above how many errors does the alert of %s fire in %s", "alerting thresholds, %s, %s", "alertThreshold",
	},
	{
		"Queue depth", "Consumers of %[1]s fall behind when the queue passes %[3]d messages in %[2]s.",
		"when do consumers of %s fall behind in %s", "queued message depths for %s in %s", "queueDepth",
	},
	{
		"Index rebuild", "Rebuilding the index of %[1]s took %[3]d minutes in %[2]s.", "rebuilding the index of %s in %s",
		"indexes rebuilt for %s in %s", "indexRebuild",
	},
	{
		"Certificate renewal", "The certificate of %[1]s in %[2]s is renewed %[3]d days ahead.",
		"when is the certificate of %s in %s renewed", "renewing certificates of %s on %s", "certificateRenewal",
	},
	{
		"Batch size", "The importer writes batches of %[3]d rows for %[1]s in %[2]s.", "rows in batches written for %s in %s",
		"batching of a row, %s, %s", "batchSize",
	},
	{
		"Session length", "Sessions of %[1]s end after %[3]d idle minutes in %[2]s.",
		"after how many idle minutes do sessions of %s end in %s", "idling session of %s within %s", "sessionLength",
	},
	{
		"Failover drill", "The failover of %[1]s from %[2]s took %[3]d seconds in the last drill.",
		"failover drill of %s from %s", "failing over drills with %s, %s", "failoverDrill",
	},
	{
		"Memory limit", "The container of %[1]s was killed at %[3]d MB in %[2]s.",
		"at how much was the container of %s killed in %s", "containers killed for memory limits, %s, %s", "memoryLimit",
	},
	{
		"Duplicate events", "Consumers of %[1]s drop events that they saw within %[3]d minutes in %[2]s.",
		"drop duplicate events of %s in %s", "duplicated event dropped by %s at %s", "duplicateEvents",
	},
	{
		"Webhook signature", "Signatures of %[1]s are checked with a tolerance of %[3]d seconds in %[2]s.",
		"tolerance of signatures of %s in %s", "tolerated signature for %s in %s", "webhookSignature",
	},
	{
		"Data residency", "Records of %[1]s for %[2]s stay in region %[3]d.", "in which region do records of %s for %s stay",
		"regional residence of a record, %s, %s", "dataResidency",
	},
	{
		"Load test", "The load test of %[1]s in %[2]s broke at %[3]d users.", "load test of %s in %s broke",
		"loading tests that break %s in %s", "loadTest",
	},
	{
		"Cost review", "Storage of %[1]s in %[2]s costs %[3]d dollars a month.", "what does storage of %s in %s cost",
		"costing stored data of %s, %s", "costReview",
	},
	{
		"On-call handover", "Pages of %[1]s in %[2]s go to group %[3]d after hours.",
		"where do pages of %s in %s go after hours", "paging groups for %s, %s", "onCallHandover",
	},
}

var noteRemarks = []string{
	"%s measured this again and agreed.", "The change was reviewed by %s.", "Ask %s before you touch it.",
	"%s wrote the first version.",
	"See also the notes on %[2]s, which had the same problem.", "It was copied from %[2]s, where it worked well.",
	"Unlike %[2]s, this cannot be changed at run time.",
	"The value in %[3]s is different.", "Do not mix it up with %[3]s.", "A dashboard shows it next to %[2]s for %[3]s.",
	"The default was too low for the traffic of last year.", "Tests cover it, but not under load.",
	"The vendor recommends twice as much.",
	"An incident last spring made us change it.", "It is set in the configuration file and read at start.",
	"Nobody remembers why it was higher before.",
}

// memoryNotes is the number of notes: one for each service, subject and place.
const memoryNotes = 10_000

// note is a note of the collection.
type note struct {
	name, text     string
	service, place string
	subject        noteSubject
}

// makeNotes returns the notes. They are always the same.
func makeNotes() []note {
	random := rand.New(rand.NewPCG(3, 3))
	notes := make([]note, 0, memoryNotes)
	for _, service := range noteServices {
		for s, subject := range noteSubjects {
			for _, place := range notePlaces {
				folder := noteFolders[random.IntN(len(noteFolders))]
				name := fmt.Sprintf("memory/%s/%04d-%02d.md", folder, len(notes), s)
				notes = append(notes, note{name, noteText(random, subject, service, place), service, place, subject})
			}
		}
	}
	return notes
}

// noteText writes a note: a title, the fact among remarks that name other services and places, and in some notes the
// setting.
func noteText(random *rand.Rand, subject noteSubject, service, place string) string {
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	var lines []string
	for range 4 + random.IntN(6) {
		line := pick(noteRemarks)
		if strings.Contains(line, "%") {
			line = fmt.Sprintf(strings.ReplaceAll(line, "%s", "%[1]s"), pick(notePeople), pick(noteServices), pick(notePlaces))
			line, _, _ = strings.Cut(line, "%!(EXTRA")
		}
		lines = append(lines, line)
	}
	at := random.IntN(len(lines))
	lines[at] = fmt.Sprintf(subject.fact, service, place, 2+random.IntN(90))
	if random.IntN(2) == 0 {
		lines = append(lines, "", fmt.Sprintf("Setting: `%s%s%s`", service, strings.ToUpper(subject.name[:1]),
			subject.name[1:]))
	}
	title := subject.title + " of " + service
	if random.IntN(3) == 0 {
		title += ", " + place
	}
	return "# " + title + "\n\n" + strings.Join(lines, "\n") + "\n"
}

// memoryQuestion is a question with its answer, the path of a note.
type memoryQuestion struct {
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	answer string
}

// makeQuestions returns 200 questions about as many notes: in the words of the note, in other forms of them, with a
// letter missing, and with the name of the setting.
func makeQuestions(notes []note) []memoryQuestion {
	random := rand.New(rand.NewPCG(4, 4))
	var list []memoryQuestion
	for i, at := range random.Perm(len(notes))[:200] {
		n := notes[at]
		q := memoryQuestion{answer: n.name}
		switch i % 4 {
		case 0:
			q.Kind, q.Text = "plain", fmt.Sprintf(n.subject.asked, n.service, n.place)
		case 1:
			q.Kind, q.Text = "inflected", fmt.Sprintf(n.subject.inflected, n.service, n.place)
		case 2:
			q.Kind, q.Text = "misspelt", misspell(random, fmt.Sprintf(n.subject.asked, n.service, n.place))
		case 3:
			q.Kind, q.Text = "setting", n.service+spaced(n.subject.name)+" "+n.place
		}
		list = append(list, q)
	}
	return list
}

// misspell removes a letter from the middle of one of the longest words.
func misspell(random *rand.Rand, text string) string {
	words := strings.Fields(text)
	var long []int
	for i, w := range words {
		if len(w) >= 7 {
			long = append(long, i)
		}
	}
	if len(long) == 0 {
		return text
	}
	i := long[random.IntN(len(long))]
	at := 1 + random.IntN(len(words[i])-2)
	words[i] = words[i][:at] + words[i][at+1:]
	return strings.Join(words, " ")
}

// spaced writes the parts of a name as words: retryLimit becomes " retry limit".
func spaced(name string) string {
	var b strings.Builder
	b.WriteByte(' ')
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// writeNotes writes the notes into a project.
func writeNotes(project string, notes []note) error {
	for _, folder := range noteFolders {
		if err := os.MkdirAll(filepath.Join(project, "memory", folder), 0o755); err != nil {
			return err
		}
	}
	for _, n := range notes {
		if err := os.WriteFile(filepath.Join(project, n.name), []byte(n.text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
