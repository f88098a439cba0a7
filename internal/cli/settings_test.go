package cli

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"posthaste/internal/app"
	"posthaste/internal/dispatch"
	"posthaste/internal/engine"
	"posthaste/internal/sign"
)

// parse reads a command line as run does, without running it.
func parse(t *testing.T, args ...string) (*commands, error) {
	t.Helper()
	var parsed commands
	parser, err := newParser(&parsed, terminal{io.Discard, io.Discard})
	if err != nil {
		t.Fatalf("grammar: %v", err)
	}
	_, err = parser.Parse(spelled(args))
	return &parsed, err
}

// settingsFile returns the flag that names a file of this content.
func settingsFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=" + path
}

func TestPrecedence(t *testing.T) {
	const file = "data: from-file\nmax-delay: 3d\nusers: [ada:a, bob:b]\nlog-level: warn\nuse-proxy: true\nmax-retries: 7\n"
	tests := map[string]struct {
		flags []string
		env   map[string]string
		file  string
		read  func(*commands) any
		want  any
	}{
		"default":                 {read: retries, want: 1000},
		"file beats default":      {file: file, read: retries, want: 7},
		"environment beats file":  {file: file, env: map[string]string{"POSTHASTE_MAX_RETRIES": "8"}, read: retries, want: 8},
		"flag beats environment":  {file: file, env: map[string]string{"POSTHASTE_MAX_RETRIES": "8"}, flags: []string{"--max-retries=9"}, read: retries, want: 9},
		"flag beats file":         {file: file, flags: []string{"--max-retries=9"}, read: retries, want: 9},
		"default may be restated": {file: file, flags: []string{"--max-retries=1000"}, read: retries, want: 1000},
		"empty environment counts": {
			file: file, env: map[string]string{"POSTHASTE_USERS": ""}, read: users, want: []string(nil),
		},
		"a list in the file":          {file: file, read: users, want: []string{"ada:a", "bob:b"}},
		"a list as text in the file":  {file: "users: ada:a,bob:b", read: users, want: []string{"ada:a", "bob:b"}},
		"a list in the environment":   {file: file, env: map[string]string{"POSTHASTE_USERS": "eve:e,joe:j"}, read: users, want: []string{"eve:e", "joe:j"}},
		"a repeated flag is a list":   {file: file, env: map[string]string{"POSTHASTE_USERS": "eve:e"}, flags: []string{"--users=kim:k", "--users=leo:l"}, read: users, want: []string{"kim:k", "leo:l"}},
		"a span in the file":          {file: file, read: func(c *commands) any { return time.Duration(c.Serve.MaxDelay) }, want: 72 * time.Hour},
		"a level in the file":         {file: file, read: func(c *commands) any { return slog.Level(c.Serve.LogLevel) }, want: slog.LevelWarn},
		"a switch in the file":        {file: file, read: proxy, want: true},
		"a switch in the environment": {file: file, env: map[string]string{"POSTHASTE_USE_PROXY": "false"}, read: proxy, want: false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for variable, value := range test.env {
				t.Setenv(variable, value)
			}
			args := append([]string{"serve", "--data=d"}, test.flags...)
			if test.file != "" {
				args = append(args, settingsFile(t, test.file))
			}
			parsed, err := parse(t, args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, test.read(parsed)); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

func retries(c *commands) any { return c.Serve.MaxRetries }
func users(c *commands) any   { return c.Serve.Users }
func proxy(c *commands) any   { return c.Serve.UseProxy }

func TestConfigFileNamedInTheEnvironment(t *testing.T) {
	flag := settingsFile(t, "max-retries: 7\ndata: d\n")
	t.Setenv("POSTHASTE_CONFIG", strings.TrimPrefix(flag, "--config="))
	parsed, err := parse(t, "serve")
	if err != nil || parsed.Serve.MaxRetries != 7 {
		t.Errorf("max-retries = %d, %v; want 7", parsed.Serve.MaxRetries, err)
	}
	if _, err := parse(t, "version"); err != nil {
		t.Errorf("a command without settings minds the file: %v", err)
	}
}

func TestFileIsRefused(t *testing.T) {
	tests := map[string]struct{ content, want string }{
		"unknown setting":        {"max-retrys: 7", `unknown setting "max-retrys"`},
		"setting of another one": {"log-port: 7", `unknown setting "log-port"`},
		"the file itself":        {"config: other.yaml", `unknown setting "config"`},
		"not a mapping":          {"- data", "not a YAML mapping"},
		"not YAML":               {"data: [", "not a YAML mapping"},
		"given twice":            {"data: a\ndata: b", "already defined"},
		"no value":               {"data:", "data: line 1 is neither a scalar value nor a list of scalars"},
		"a mapping as value":     {"data: {path: d}", "data: line 1 is neither"},
		"a list for one value":   {"max-retries: [7]", "max-retries is a list, but takes a single value"},
		"a list in a list":       {"users:\n- [a:b]", "users: line 2 is not a scalar value"},
		"a value out of bounds":  {"max-retries: 0", "max-retries 0 is out of range: 1 to 100000 is accepted"},
		"a value of no meaning":  {"max-body-size: big", `"big" is not a size`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, "serve", "--data=d", settingsFile(t, test.content))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}

func TestMissingFile(t *testing.T) {
	_, err := parse(t, "serve", "--data=d", "--config=nowhere.yaml")
	if err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("error = %v, want one that names the file", err)
	}
}

const (
	adaToken  = "eyJVc2VySUQiOiJhZGEiLCJQYXNzd29yZCI6InNlY3JldCJ9"                         // {"UserID":"ada","Password":"secret"}
	adaReads  = "eyJVc2VySUQiOiJhZGEiLCJQYXNzd29yZCI6InNlY3JldCIsIlJlYWRPbmx5Ijp0cnVlfQ==" // the same, read-only
	adaOther  = "eyJQYXNzd29yZCI6InNlY3JldCIsIlVzZXJJRCI6ImFkYSJ9"                         // the same, in another order
	keyOne    = "sig_0000000000000000000000000001"
	keyTwo    = "sig_0000000000000000000000000002"
	shortKey  = "sig_short"
	adaSecret = "ada:secret"
)

func TestSettingsAreRefused(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"no data":                       {[]string{"serve"}, "data is missing"},
		"data and a database":           {serve("--database-url=postgres://h/d"), `data "d" and database-url are both given`},
		"a database of another kind":    {[]string{"serve", "--database-url=mysql://h/d"}, "database-url is not the URL of a PostgreSQL"},
		"a database that is no URL":     {[]string{"serve", "--database-url=host=h dbname=d"}, "database-url is not the URL of a PostgreSQL"},
		"too few connections":           {[]string{"serve", "--database-url=postgres://h/d", "--database-connections=3"}, "database-connections 3 is out of range: 4 to 1000 is accepted"},
		"too short a lease":             {[]string{"serve", "--database-url=postgres://h/d", "--node-lease=2s"}, "node-lease 2s is out of range: 3s to 5m0s is accepted"},
		"too long a lease":              {[]string{"dev", "--database-url=postgres://h/d", "--node-lease=6m"}, "node-lease 6m0s is out of range"},
		"partitions: no power of two":   {[]string{"serve", "--database-url=postgres://h/d", "--partitions=3"}, "partitions 3 is not accepted: 0, 1, 2, 4, 8, 16, 32 or 64 is"},
		"too many partitions":           {[]string{"dev", "--database-url=postgres://h/d", "--partitions=128"}, "partitions 128 is not accepted"},
		"partitions of a directory":     {serve("--partitions=4"), "partitions 4 is for a database, and none is given"},
		"a copy divided by three":       {[]string{"copy", "--from=d", "--to=postgres://h/d", "--partitions=3"}, "partitions 3 is not accepted"},
		"a directory divided by a copy": {[]string{"copy", "--from=postgres://h/d", "--to=d", "--partitions=4"}, "partitions 4 is for a database, and none is given"},
		"dev: data and a database":      {[]string{"dev", "--data=d", "--database-url=postgres://h/d"}, `data "d" and database-url are both given`},
		"a database twice":              {[]string{"serve", "--database-url=postgres://h/d", "--database-url=postgres://h/d"}, "database-url names a database twice, the second time as number 2"},
		"a database of several":         {[]string{"serve", "--database-url=postgres://h/d mysql://h/d"}, "database-url is not the URL of a PostgreSQL"},
		"too many databases":            {[]string{"serve", "--database-url=" + strings.Repeat("postgres://h/d ", 17)}, "database-url is given 17 times: 1 to 16 are accepted"},
		"schema of several":             {[]string{"schema", "show", "--database-url=postgres://h/d postgres://h/e"}, "database-url is given more than once"},
		"copy into a place twice":       {[]string{"copy", "--from=d", "--to=postgres://h/d", "--to=postgres://h/d"}, "database-url names a database twice"},
		"copy into several directories": {[]string{"copy", "--from=d", "--to=e", "--to=f"}, "to is given 2 times, but not all are databases"},
		"check of nothing":              {[]string{"check"}, "data is missing: give a directory with --data DIR, or a database with --database-url URL"},
		"check of two places":           {[]string{"check", "--data=d", "--database-url=postgres://h/d"}, `data "d" and database-url are both given`},
		"check of another kind":         {[]string{"check", "--database-url=mysql://h/d"}, "database-url is not the URL of a PostgreSQL"},
		"schema of no database":         {[]string{"schema", "show"}, "database-url is missing"},
		"schema of another kind":        {[]string{"schema", "show", "--database-url=mysql://h/d"}, "database-url is not the URL of a PostgreSQL"},
		"no address":                    {serve("--listen=8080"), `listen "8080" is not an address: give HOST:PORT`},
		"a port above":                  {serve("--listen=:8080,:65536"), `listen ":65536" is not an address`},
		"unknown flag":                  {[]string{"serve", "--dta=d"}, "unknown flag --dta"},
		"body size below":               {serve("--max-body-size=0"), "max-body-size 0B is out of range: 1B to 100MiB is accepted"},
		"body size above":               {serve("--max-body-size=101MiB"), "max-body-size 101MiB is out of range"},
		"batch size above":              {serve("--max-batch-size=101MiB"), "max-batch-size 101MiB is out of range: 1B to 100MiB is accepted"},
		"queues below":                  {serve("--max-queues=-1"), "max-queues -1 is out of range: 0 to 1000000 is accepted"},
		"parallelism above":             {serve("--max-parallelism=1000001"), "max-parallelism 1000001 is out of range"},
		"queues of metrics above":       {serve("--metrics-queues=1001"), "metrics-queues 1001 is out of range: 0 to 1000 is accepted"},
		"schedules above":               {serve("--max-schedules=1000001"), "max-schedules 1000001 is out of range"},
		"response size above":           {serve("--max-response-size=101MiB"), "max-response-size 101MiB is out of range"},
		"disk reserve below":            {serve("--disk-reserve=1MiB"), "disk-reserve 1MiB is out of range: 16MiB to 1024GiB is accepted"},
		"timeout below":                 {serve("--max-timeout=999ms"), "max-timeout 999ms is out of range: 1s to 24h0m0s is accepted"},
		"retries below":                 {serve("--max-retries=-1"), "max-retries -1 is out of range"},
		"delay above":                   {serve("--max-delay=3661d"), "max-delay 87864h0m0s is out of range"},
		"logs kept for too short":       {serve("--keep-logs=1d"), "keep-logs 24h0m0s is out of range: 48h0m0s to 876000h0m0s is accepted"},
		"dead letters kept too long":    {serve("--keep-dlq=36501d"), "keep-dlq 876024h0m0s is out of range"},
		"runs kept for a negative time": {serve("--keep-runs=-1s"), "keep-runs"},
		"concurrency below":             {serve("--concurrency=0"), "concurrency 0 is out of range"},
		"no request at once":            {serve("--max-requests=0"), "max-requests 0 is out of range: 1 to 100000 is accepted"},
		"fewer than no connections":     {serve("--max-connections=-1"), "max-connections -1 is out of range: 0 to 1000000 is accepted"},
		"too little memory":             {serve("--memory-limit=1MiB"), "memory-limit 1MiB is out of range: 256MiB to 1024GiB is accepted"},
		"too little kept":               {serve("--keep-bytes=1000"), "keep-bytes 1000B is out of range: 64MiB to 1048576GiB is accepted"},
		"kept of a user: no kind":       {serve("--keep-for=ada"), `keep-for: entry 1, "ada", is not USER:KIND=VALUE`},
		"kept of a user: unknown kind":  {serve("--keep-for=ada:log=7d"), `keep-for ada:log=7d: "log" is not a kind: give logs, dlq, runs or bytes`},
		"kept of a user: no time":       {serve("--keep-for=ada:logs=week"), `keep-for ada:logs=week: "week" is not a duration`},
		"kept of a user: too short":     {serve("--keep-for=bob:dlq=1d,ada:logs=1d"), "keep-for ada:logs 24h0m0s is out of range: 48h0m0s to 876000h0m0s is accepted"},
		"kept of a user: too little":    {serve("--keep-for=ada:bytes=1kB"), "keep-for ada:bytes 1000B is out of range: 64MiB"},
		"kept of a user: no user":       {serve("--keep-for=a\x00:logs=7d"), `keep-for: entry 1: user "a\x00" is invalid`},
		"a user with a NUL":             {serve("--users=ada:a,b\x00b:secret"), `users: entry 2: name "b\x00b" is invalid: UTF-8 without control characters is accepted`},
		"a user of 300 bytes":           {serve("--read-only-users=" + strings.Repeat("u", 300) + ":secret"), "read-only-users: entry 1: name \"uuu"},
		"cache below":                   {serve("--cache-size=1KiB"), "cache-size 1KiB is out of range: 1MiB to 1024GiB is accepted"},
		"region that is no header":      {serve("--region=a\nb"), `region "a\nb" cannot be sent in a header`},
		"region empty":                  {serve("--region="), "region is empty"},
		"alert to no URL":               {serve("--alert-url=ops"), "invalid alert-url url: endpoint has invalid scheme"},
		"alert to a refused address":    {serve("--alert-url=http://127.0.0.1/hook"), "alert-url: "},
		"alert key":                     {serve("--alert-url=https://example.com/hook", "--alert-signing-key=hunter2"), "alert-signing-key is not sig_ followed by 28 letters or digits"},
		"alert threshold below":         {serve("--alert-threshold=0"), "alert-threshold 0 is out of range: 1 to 1000000 is accepted"},
		"alert quiet above":             {serve("--alert-quiet=8d"), "alert-quiet 192h0m0s is out of range: 1s to 168h0m0s is accepted"},
		"log level":                     {serve("--log-level=loud"), `"loud" is not a level: give debug, info, warn or error`},
		"log format":                    {serve("--log-format=xml"), `--log-format must be one of "text","json" but got "xml"`},
		"number":                        {serve("--concurrency=many"), "--concurrency"},
		"destinations":                  {serve("--destinations=none"), `destinations "none" is not known`},
		"range":                         {serve("--deny-destinations=10.0.0.0/33"), `address range "10.0.0.0/33"`},
		"allow list without effect":     {serve("--destinations=any", "--allow-destinations=10.0.0.0/8"), "allow-destinations has no effect"},
		"token":                         {serve("--token=secret"), "token: a token must be standard base64"},
		"token that cannot write":       {serve("--token=" + adaReads), `token of "ada" is read-only`},
		"user without password":         {serve("--users=ada:a,bob"), "users: entry 2 is not NAME:PASSWORD"},
		"reader without name":           {serve("--read-only-users=:x"), "read-only-users: entry 1 is not NAME:PASSWORD"},
		"reader with a full password":   {serve("--users="+adaSecret, "--read-only-users="+adaSecret), `read-only-users gives "ada" the password of a full token`},
		"reader with the token's":       {serve("--token="+adaToken, "--read-only-users="+adaSecret), `read-only-users gives "ada" the password of a full token`},
		"one signing key":               {serve("--current-signing-key=" + keyOne), "current-signing-key and next-signing-key must be set together"},
		"the other signing key":         {serve("--next-signing-key=" + keyOne), "current-signing-key and next-signing-key must be set together"},
		"the same signing key twice":    {serve("--current-signing-key="+keyOne, "--next-signing-key="+keyOne), "are the same"},
		"a signing key that is none":    {serve("--current-signing-key="+keyOne, "--next-signing-key="+shortKey), "the next signing key must be sig_"},
		"dev: port above":               {[]string{"dev", "--port=65536"}, "port 65536 is out of range: 0 to 65535 is accepted"},
		"dev: log port below":           {[]string{"dev", "--log-port=-1"}, "log-port -1 is out of range"},
		"dev: one port for both":        {[]string{"dev", "--port=8090", "--log-port=8090"}, "log-port 8090 is the port of the server"},
		"dev: quota":                    {[]string{"dev", "--quota=free"}, "--quota must be one of"},
		"dev: settings of serve":        {[]string{"dev", "--token=" + adaToken}, "unknown flag --token"},
		"dev: shared ones are checked":  {[]string{"dev", "--concurrency=0"}, "concurrency 0 is out of range"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}

func serve(flags ...string) []string { return append([]string{"serve", "--data=d"}, flags...) }

func TestErrorsKeepSecrets(t *testing.T) {
	tests := map[string]struct{ variable, value string }{
		"token":       {"POSTHASTE_TOKEN", "hunter2"},
		"users":       {"POSTHASTE_USERS", "hunter2"},
		"readers":     {"POSTHASTE_READ_ONLY_USERS", "hunter2"},
		"signing key": {"POSTHASTE_CURRENT_SIGNING_KEY", "hunter2"},
		"database":    {"POSTHASTE_DATABASE_URL", "postgres://user:hunter2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(test.variable, test.value)
			if _, err := parse(t, serve()...); err == nil || strings.Contains(err.Error(), test.value) {
				t.Errorf("error = %v, want one that does not show the value", err)
			}
		})
	}
}

func TestServeOptions(t *testing.T) {
	parsed, err := parse(t, serve(
		"--token="+adaOther, "--users=bob:b:b", "--read-only-users=ada:reads",
		"--current-signing-key="+keyOne, "--next-signing-key="+keyTwo,
		"--max-body-size=2MiB", "--max-response-size=3KiB", "--max-timeout=1m", "--max-retries=5", "--max-delay=1d",
		"--max-batch-size=4MiB", "--max-queues=6", "--max-parallelism=7", "--max-schedules=8",
		"--keep-logs=2d", "--keep-dlq=0s", "--keep-runs=1h", "--keep-bytes=5GB",
		"--keep-for=ada:logs=7d,ada:dlq=1d", "--keep-for=bob:bytes=0B", "--keep-for=urn:id=9:bytes=0B", `--keep-for=o\,p:bytes=0B,bob:dlq=0s`,
		"--max-requests=9", "--max-connections=10", "--memory-limit=1GiB",
		"--concurrency=9", "--cache-size=8MiB", "--disk-reserve=64MiB", "--region=lab", "--metrics-queues=11", "--use-proxy", "--signature-not-before",
	)...)
	if err != nil {
		t.Fatal(err)
	}
	got := parsed.Serve.options(io.Discard)
	if err := parsed.Serve.grant(&got); err != nil {
		t.Fatal(err)
	}
	want := app.Options{
		Tokens: []string{
			adaOther, // as it was written
			adaToken,
			sign.Token{UserID: "bob", Password: "b:b"}.Encode(),
			sign.Token{UserID: "ada", Password: "reads", ReadOnly: true}.Encode(),
		},
		SigningKeys:    map[string]sign.KeyPair{"ada": {Current: keyOne, Next: keyTwo}},
		CacheSize:      8 << 20,
		DiskReserve:    64 << 20,
		UseProxy:       true,
		Region:         "lab",
		NotBefore:      true,
		Concurrency:    9,
		MaxRetries:     5,
		MaxDelay:       day,
		MaxQueues:      6,
		MaxParallelism: 7,
		MaxSchedules:   8,
		Keep:           app.Keep{Logs: 48 * time.Hour, Runs: time.Hour, Bytes: 5e9},
		KeepFor: map[string]app.Keep{
			"ada": {Logs: 7 * 24 * time.Hour, DLQ: 24 * time.Hour, Runs: time.Hour, Bytes: 5e9},
			"bob": {Logs: 48 * time.Hour, Runs: time.Hour},

			"o,p":      {Logs: 48 * time.Hour, Runs: time.Hour},
			"urn:id=9": {Logs: 48 * time.Hour, Runs: time.Hour},
		},
		MetricsQueues:   11,
		MaxRequests:     9,
		MaxConnections:  10,
		MemoryLimit:     1 << 30,
		MaxBodySize:     2 << 20,
		MaxBatchSize:    4 << 20,
		MaxResponseSize: 3 << 10,
		MaxTimeout:      time.Minute,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(app.Options{}, "Log", "Destinations")); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestTokenIsMadeUnlessSomeoneCanWrite(t *testing.T) {
	tests := map[string]struct {
		flags []string
		want  bool
	}{
		"nobody":      {nil, true},
		"a reader":    {[]string{"--read-only-users=ada:reads"}, true},
		"a token":     {[]string{"--token=" + adaToken}, false},
		"only a user": {[]string{"--users=ada:a"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parsed, err := parse(t, serve(test.flags...)...)
			if err != nil {
				t.Fatal(err)
			}
			var options app.Options
			if err := parsed.Serve.grant(&options); err != nil || options.OwnToken != test.want {
				t.Errorf("own token: %t, %v; want %t", options.OwnToken, err, test.want)
			}
		})
	}
}

func TestSigningKeysBelongToTheFirstUser(t *testing.T) {
	keys := []string{"--current-signing-key=" + keyOne, "--next-signing-key=" + keyTwo}
	tests := map[string]struct {
		flags []string
		want  string
	}{
		"the token's":       {[]string{"--token=" + adaToken, "--users=bob:b"}, "ada"},
		"the first account": {[]string{"--users=bob:b,eve:e"}, "bob"},
		"the made token's":  {[]string{"--read-only-users=eve:e"}, app.DefaultUser},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parsed, err := parse(t, serve(append(keys, test.flags...)...)...)
			if err != nil {
				t.Fatal(err)
			}
			var options app.Options
			if err := parsed.Serve.grant(&options); err != nil {
				t.Fatal(err)
			}
			if _, found := options.SigningKeys[test.want]; !found || len(options.SigningKeys) != 1 {
				t.Errorf("signing keys of %v, want of %s", options.SigningKeys, test.want)
			}
		})
	}
}

func TestDestinations(t *testing.T) {
	parsed, err := parse(t, serve("--destinations=public", "--allow-destinations=10.1.1.1", "--deny-destinations=10.0.0.0/8,8.8.8.8")...)
	if err != nil {
		t.Fatal(err)
	}
	policy := parsed.Serve.policy()
	if policy.Mode != dispatch.ModePublic || len(policy.Allow) != 1 || len(policy.Deny) != 2 {
		t.Errorf("policy = %+v", policy)
	}
}

func TestDefaultsAreTheParts(t *testing.T) {
	parsed, err := parse(t, serve()...)
	if err != nil {
		t.Fatal(err)
	}
	if got := parsed.Serve.Concurrency; got != engine.DefaultConcurrency {
		t.Errorf("concurrency is %d by default, the engine's is %d", got, engine.DefaultConcurrency)
	}
}

func TestOneOrTwoDashes(t *testing.T) {
	tests := map[string]struct {
		args      []string
		port, log int
	}{
		"two and a space":  {[]string{"dev", "--port", "8081"}, 8081, 8082},
		"two and equals":   {[]string{"dev", "--port=8081"}, 8081, 8082},
		"one and a space":  {[]string{"dev", "-port", "8081"}, 8081, 8082},
		"one and equals":   {[]string{"dev", "-port=8081", "-log-port=9000"}, 8081, 9000},
		"default":          {[]string{"dev"}, 8080, 8081},
		"the highest port": {[]string{"dev", "-port=65535"}, 65535, 65536},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parsed, err := parse(t, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := parsed.Dev.logPort(parsed.Dev.Port); parsed.Dev.Port != test.port || got != test.log {
				t.Errorf("ports %d and %d, want %d and %d", parsed.Dev.Port, got, test.port, test.log)
			}
		})
	}
}

func TestDevelopmentEnvironment(t *testing.T) {
	t.Setenv("QSTASH_DEV_PORT", "8085")
	t.Setenv("QSTASH_DEV_LOG_PORT", "8095")
	t.Setenv("QSTASH_DEV_QUOTA", "pro")
	parsed, err := parse(t, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if dev := parsed.Dev; dev.Port != 8085 || dev.logPort(dev.Port) != 8095 || dev.Quota != "pro" {
		t.Errorf("ports %d and %d, quota %s", dev.Port, dev.logPort(dev.Port), dev.Quota)
	}
	t.Setenv("POSTHASTE_PORT", "8086")
	if parsed, err = parse(t, "dev"); err != nil || parsed.Dev.Port != 8086 {
		t.Errorf("port %d, %v; want our own variable to win", parsed.Dev.Port, err)
	}
}

func TestDevelopmentTokens(t *testing.T) {
	want := []string{
		"eyJVc2VySUQiOiJkZWZhdWx0VXNlciIsIlBhc3N3b3JkIjoiZGVmYXVsdFBhc3N3b3JkIn0=",
		"eyJVc2VySUQiOiJ0ZXN0VXNlcjEiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9",
		"eyJVc2VySUQiOiJ0ZXN0VXNlcjIiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9",
		"eyJVc2VySUQiOiJ0ZXN0VXNlcjMiLCJQYXNzd29yZCI6InRlc3RQYXNzd29yZCJ9",
	}
	for i, user := range devUsers {
		if got := user.token(false).Encode(); got != want[i] {
			t.Errorf("token of %s is %s, want %s", user.name, got, want[i])
		}
		if err := user.keys.Check(); err != nil {
			t.Errorf("keys of %s: %v", user.name, err)
		}
	}
}

func FuzzSettingsFile(f *testing.F) {
	for _, seed := range []string{"data: d", "users: [a:b]", "a: {b: c}", "- x", "a: &x [*x]", "<<: {a: b}", "? [a]\n: b"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := decodeSettings(data)
		if err != nil {
			return
		}
		for name, value := range values {
			switch value.(type) {
			case string, []any:
			default:
				t.Errorf("%s is a %T", name, value)
			}
		}
	})
}

// TestGracePeriods checks that whoever ends a server waits for as long as it takes to stop.
func TestGracePeriods(t *testing.T) {
	const docker = 10 * time.Second // of docker stop and of compose, unless set
	parsed, err := parse(t, "serve", "--data=d")
	if err != nil {
		t.Fatal(err)
	}
	takes := time.Duration(parsed.Serve.ShutdownLead + parsed.Serve.ShutdownTimeout)
	if takes >= docker {
		t.Errorf("a server takes up to %s to stop, Docker waits %s", takes, docker)
	}
	deploy := filepath.Join("..", "..", "deploy")
	unit := readFile(t, filepath.Join(deploy, "systemd", "posthaste.service"))
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(.*)$`).FindStringSubmatch(unit)
	if found == nil {
		t.Fatal("the unit has no TimeoutStopSec")
	}
	if waits, err := time.ParseDuration(found[1]); err != nil || waits <= takes {
		t.Errorf("systemd waits %s, %v, and a server takes %s", waits, err, takes)
	}
	chartFile := filepath.Join(deploy, "helm", "posthaste", "values.yaml")
	var chart struct {
		Settings                      map[string]string `yaml:"settings"`
		TerminationGracePeriodSeconds int               `yaml:"terminationGracePeriodSeconds"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, chartFile)), &chart); err != nil {
		t.Fatal(err)
	}
	lead, leadErr := parseSpan(chart.Settings["shutdown-lead"])
	timeout, timeoutErr := parseSpan(chart.Settings["shutdown-timeout"])
	waits := time.Duration(chart.TerminationGracePeriodSeconds) * time.Second
	if err := errors.Join(leadErr, timeoutErr); err != nil || lead == 0 || waits <= lead+timeout {
		t.Errorf("Kubernetes waits %s, and the chart's server takes %s and %s, %v", waits, lead, timeout, err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSourcesAreNamed checks that an error about a setting tells where its value comes from,
// unless that is the command line.
func TestSourcesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		file string
		want string // the end of the sentence
	}{
		"no number":          {serve(), map[string]string{"POSTHASTE_MAX_RETRIES": "few"}, "", `got "few" (from envar POSTHASTE_MAX_RETRIES="few")`},
		"out of bounds":      {serve(), map[string]string{"POSTHASTE_MAX_BODY_SIZE": "0"}, "", "1B to 100MiB is accepted (from POSTHASTE_MAX_BODY_SIZE)"},
		"no choice":          {serve(), map[string]string{"POSTHASTE_LOG_FORMAT": "xml"}, "", `got "xml" (from POSTHASTE_LOG_FORMAT)`},
		"a secret":           {serve(), map[string]string{"POSTHASTE_TOKEN": "hunter2"}, "", "without line breaks (from POSTHASTE_TOKEN)"},
		"one of two flags":   {serve(), map[string]string{"POSTHASTE_DATABASE_URL": "postgres://h/d"}, "", "so leave one out (from POSTHASTE_DATABASE_URL)"},
		"of another program": {[]string{"dev"}, map[string]string{"QSTASH_DEV_PORT": "70000"}, "", "0 to 65535 is accepted (from QSTASH_DEV_PORT)"},
		"of a client":        {[]string{"logs"}, map[string]string{"QSTASH_URL": "ftp://h"}, "", "http://127.0.0.1:8080 (from QSTASH_URL)"},
		"no file":            {serve(), map[string]string{"POSTHASTE_CONFIG": "nowhere"}, "", "no such file or directory (from POSTHASTE_CONFIG)"},
		"a file":             {serve(), nil, "max-body-size: 0", "1B to 100MiB is accepted (from FILE)"},
		"no number in one":   {serve(), nil, "max-retries: few", `got "few" (from FILE)`},
		"command line":       {serve("--max-body-size=0"), map[string]string{"POSTHASTE_MAX_BODY_SIZE": "1"}, "max-body-size: 2", "1B to 100MiB is accepted"},
		"nothing given":      {[]string{"serve"}, nil, "max-body-size: 2", "with --database-url URL"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			args, file := c.args, ""
			if c.file != "" {
				flag := settingsFile(t, c.file)
				args, file = append(args, flag), strings.TrimPrefix(flag, "--config=")
			}
			var said strings.Builder
			code := run(args, terminal{io.Discard, &said})
			got := strings.ReplaceAll(strings.TrimSpace(said.String()), file, "FILE")
			if file == "" {
				got = strings.TrimSpace(said.String())
			}
			if code != exitUsage || !strings.HasSuffix(got, c.want) {
				t.Errorf("exit code %d: %s\nwant the end %s", code, got, c.want)
			}
		})
	}
}
