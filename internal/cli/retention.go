package cli

import (
	"cmp"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/app"
)

// retentionSettings configure retention and storage quota.
type retentionSettings struct {
	KeepLogs span `group:"retention" default:"30d" help:"Retention of the log and of ended messages: 2d to 36500d, or 0s for no limit. Data is removed in whole days."`
	KeepDLQ  span `group:"retention" default:"90d" help:"Retention of the dead letter queues, of messages and of workflow runs: 1s to 36500d, or 0s for no limit."`
	KeepRuns span `group:"retention" default:"30d" help:"Retention of ended workflow runs: 1s to 36500d, or 0s for no limit. Runs in the DLQ are kept regardless."`

	KeepBytes byteSize `group:"retention" default:"0B" help:"Storage quota of each user: 64MiB to 1048576GiB, or 0B for no limit. Above it, the oldest days of the log are removed, then those of dead letters and ended runs. The last two days are always kept."`

	KeepFor []string `group:"retention" placeholder:"USER:KIND=VALUE" help:"Retention of one user, overriding --keep-logs, --keep-dlq, --keep-runs or --keep-bytes: KIND is logs, dlq, runs or bytes, as in acme:logs=7d or acme:bytes=10GB. Write a comma in a user ID as \\,."`
}

// check returns an error about the first setting out of bounds.
func (s *retentionSettings) check() error {
	if err := checkRetention("keep-", s.keep()); err != nil {
		return err
	}
	_, err := s.keepFor()
	return err
}

// checkRetention checks bounds; setting is the prefix of names in errors.
func checkRetention(setting string, k app.Keep) error {
	const longest = span(36500 * day)
	return cmp.Or(
		keeping(setting+"logs", span(k.Logs), span(2*day), longest), // idempotency records of a day are stored with the log
		keeping(setting+"dlq", span(k.DLQ), span(time.Second), longest),
		keeping(setting+"runs", span(k.Runs), span(time.Second), longest),
		keeping(setting+"bytes", byteSize(k.Bytes), 64<<20, 1<<50), // sizes are estimates, by blocks of files
	)
}

// keep returns the retention of users without their own.
func (s *retentionSettings) keep() app.Keep {
	return app.Keep{
		Logs:  time.Duration(s.KeepLogs),
		DLQ:   time.Duration(s.KeepDLQ),
		Runs:  time.Duration(s.KeepRuns),
		Bytes: int64(s.KeepBytes),
	}
}

// keepFor returns the retention of users who have their own, nil if none.
func (s *retentionSettings) keepFor() (map[string]app.Keep, error) {
	var all map[string]app.Keep
	for i, text := range s.KeepFor {
		user, kind, value := parseKeepFor(text)
		if user == "" {
			return nil, posthaste.Invalidf("keep-for: entry %d, %q, is not USER:KIND=VALUE, such as acme:logs=7d", i+1, text)
		}
		if err := posthaste.CheckUserID("user", user); err != nil {
			return nil, posthaste.Invalidf("keep-for: entry %d: %v", i+1, err)
		}
		k, known := all[user]
		if !known {
			k = s.keep()
		}
		if err := setKeep(&k, kind, value); err != nil {
			return nil, posthaste.Invalidf("keep-for %s: %v", text, err)
		}
		if err := checkRetention("keep-for "+user+":", k); err != nil {
			return nil, err
		}
		if all == nil {
			all = make(map[string]app.Keep)
		}
		all[user] = k
	}
	return all, nil
}

// parseKeepFor parses USER:KIND=VALUE, where USER may contain both signs. user is "" for other
// text.
func parseKeepFor(text string) (user, kind, value string) {
	equals := max(0, strings.LastIndexByte(text, '='))
	colon := max(0, strings.LastIndexByte(text[:equals], ':'))
	if colon == 0 {
		return "", "", ""
	}
	return text[:colon], text[colon+1 : equals], text[equals+1:]
}

// setKeep sets one kind.
func setKeep(k *app.Keep, kind, value string) error {
	times := map[string]*time.Duration{"logs": &k.Logs, "dlq": &k.DLQ, "runs": &k.Runs}
	switch at := times[kind]; {
	case at != nil:
		return (*span)(at).UnmarshalText([]byte(value))
	case kind == "bytes":
		return (*byteSize)(&k.Bytes).UnmarshalText([]byte(value))
	default:
		return posthaste.Invalidf("%q is not a kind: give logs, dlq, runs or bytes", kind)
	}
}
