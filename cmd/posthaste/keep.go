package main

import (
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/app"
)

// keepSettings say how long things are kept, and how much of a user.
type keepSettings struct {
	KeepLogs span `group:"retention" default:"30d" help:"Retention of the log and of finished messages: 2d to 36500d, or 0s for no limit. Data is removed in whole days."`
	KeepDLQ  span `group:"retention" default:"90d" help:"Retention of the dead letter queues, of messages and of workflow runs: 1s to 36500d, or 0s for no limit."`
	KeepRuns span `group:"retention" default:"30d" help:"Retention of finished workflow runs: 1s to 36500d, or 0s for no limit. Runs in the DLQ are kept regardless."`

	KeepBytes byteSize `group:"retention" default:"0B" help:"Storage quota of each user: 64MiB to 1048576GiB, or 0B for no limit. Above it the oldest days of the log are removed, then those of dead letters and finished runs. The last two days are always kept."`

	KeepFor []string `group:"retention" placeholder:"USER:KIND=VALUE" help:"Retention of one user, overriding --keep-logs, --keep-dlq, --keep-runs or --keep-bytes: KIND is logs, dlq, runs or bytes, as in acme:logs=7d or acme:bytes=10GB. Write a comma in a user ID as \\,."`
}

// check returns a sentence about the first setting that is out of bounds.
func (s *keepSettings) check() error {
	if err := checkKeep("keep-", s.keep()); err != nil {
		return err
	}
	_, err := s.keepFor()
	return err
}

// checkKeep names a value by what its setting's name begins with.
func checkKeep(setting string, k app.Keep) error {
	const longest = span(36500 * day)
	return firstError(
		keeping(setting+"logs", span(k.Logs), span(2*day), longest), // idempotency records of a day are stored with the log
		keeping(setting+"dlq", span(k.DLQ), span(time.Second), longest),
		keeping(setting+"runs", span(k.Runs), span(time.Second), longest),
		keeping(setting+"bytes", byteSize(k.Bytes), 64<<20, 1<<50), // sizes are estimates, by blocks of files
	)
}

// keep returns what is kept of users of whom nothing else is said.
func (s *keepSettings) keep() app.Keep {
	return app.Keep{
		Logs:  time.Duration(s.KeepLogs),
		DLQ:   time.Duration(s.KeepDLQ),
		Runs:  time.Duration(s.KeepRuns),
		Bytes: int64(s.KeepBytes),
	}
}

// keepFor returns what is kept of users who have settings of their own, nil if none has.
func (s *keepSettings) keepFor() (map[string]app.Keep, error) {
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
		if err := checkKeep("keep-for "+user+":", k); err != nil {
			return nil, err
		}
		if all == nil {
			all = make(map[string]app.Keep)
		}
		all[user] = k
	}
	return all, nil
}

// parseKeepFor takes USER:KIND=VALUE apart. The id of a user may have either sign in it. The
// user is "" if the text does not have that form.
func parseKeepFor(text string) (user, kind, value string) {
	equals := max(0, strings.LastIndexByte(text, '='))
	colon := max(0, strings.LastIndexByte(text[:equals], ':'))
	if colon == 0 {
		return "", "", ""
	}
	return text[:colon], text[colon+1 : equals], text[equals+1:]
}

// setKeep sets one kind to a value.
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
