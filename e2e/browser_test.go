package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// webDirectory holds the sources of the console, and its npm packages.
const webDirectory = "../web"

var screenshots = flag.String("screenshots", os.Getenv("POSTHASTE_SCREENSHOTS"), "directory that the tests of the console leave pictures in; unless given, $POSTHASTE_SCREENSHOTS")

// browser is a Chromium without a window. It stays within this machine.
type browser struct {
	ctx context.Context
	axe string // the source of axe-core
}

// The programs of Chromium. The one without windows draws a little differently, and takes half as
// long for it; the other one serves where there is none.
const (
	withWindows    = "chromium"
	withoutWindows = "chromium-headless-shell"
)

// startBrowser starts a browser that ends with the test.
func startBrowser(t *testing.T, program string) *browser {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath(withWindows)
	}
	if err != nil {
		t.Fatalf("the tests of the console need chromium, which make deps installs: %v", err)
	}
	needModules(t, webDirectory)
	axe, err := os.ReadFile(filepath.Join(webDirectory, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir() // what a browser that is killed leaves behind
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(patience), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.Env("TMPDIR="+temporary),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"),
	)
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	t.Cleanup(closeBrowser)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return &browser{ctx: ctx, axe: string(axe)}
}

// needModules provides the npm packages of a directory.
func needModules(t *testing.T, directory string) {
	t.Helper()
	lock, err := os.Stat(filepath.Join(directory, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	present, err := os.Stat(filepath.Join(directory, "node_modules/.package-lock.json"))
	if err == nil && !lock.ModTime().After(present.ModTime()) {
		return
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund")
	cmd.Dir = directory
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci in %s: %v\n%s", directory, err, output)
	}
}

// tab is a page of a browser.
type tab struct {
	t       *testing.T
	ctx     context.Context
	browser *browser
}

// The sizes of windows, in pixels.
var (
	desktop     = [2]int64{1360, 860}
	phone       = [2]int64{390, 780}
	narrowPhone = [2]int64{360, 740}
)

// open opens an address in a tab of its own, which knows nothing of other tabs. Whatever the
// page reports as an error, breaches of its policy included, fails the test.
func (b *browser) open(t *testing.T, size [2]int64, address string) *tab {
	t.Helper()
	return b.openIn(t, b.ctx, size, address, chromedp.WithNewBrowserContext())
}

// another opens an address in a tab beside this one, as a link does.
func (p *tab) another(address string) *tab {
	p.t.Helper()
	return p.browser.openIn(p.t, p.ctx, desktop, address)
}

func (b *browser) openIn(t *testing.T, ctx context.Context, size [2]int64, address string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(ctx, options...)
	page := &tab{t: t, ctx: ctx, browser: b}
	var listening sync.WaitGroup
	t.Cleanup(listening.Wait)
	t.Cleanup(closeTab)
	messages := chromedp.Console(ctx)
	listening.Go(func() { page.listen(messages) })
	if _, err := chromedp.Call(ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: watching}); err != nil {
		t.Fatal(err)
	}
	page.do(chromedp.EmulateViewport(size[0], size[1]), chromedp.Navigate(address))
	return page
}

// watching notes in each page when the first row of a table was painted, as the browser
// reports it, how many rows there were at most, what was last copied, whether the page
// said so, which it does for a moment, and whether it had asked for the log before the first
// frame with a view.
const watching = `
	window.seen = { firstRow: 0, mostRows: 0, copied: "", saidCopied: false, view: false, asked: false };
	window.fetch = ((fetch) => (address, ...options) => {
		seen.asked ||= String(address).startsWith("/v2/logs?"); // not its statistics
		return fetch(address, ...options);
	})(window.fetch);
	new MutationObserver((changes) => {
		if (!seen.view && document.querySelector("h1")) {
			seen.view = true;
			requestAnimationFrame(() => { seen.askedBeforeView = seen.asked; });
		}
		const rows = document.querySelectorAll(".table-body .row");
		if (rows.length > 0 && seen.mostRows === 0) rows[0].querySelectorAll("*").forEach((part) => part.setAttribute("elementtiming", "row"));
		seen.mostRows = Math.max(seen.mostRows, rows.length);
		seen.saidCopied ||= changes.some((change) => change.type === "characterData" && change.target.data === "Copied");
	}).observe(document, { childList: true, characterData: true, subtree: true });
	new PerformanceObserver((list) => { seen.firstRow ||= list.getEntries()[0].renderTime; }).observe({ type: "element", buffered: true });
	if (navigator.clipboard) navigator.clipboard.writeText = async (text) => { seen.copied = text; };
`

// asked returns how many questions to the API with a prefix the page has asked.
func (p *tab) asked(prefix string) int {
	p.t.Helper()
	return evaluate[int](p, fetches(prefix)+`.length`)
}

// fetched returns how many bytes the page was answered by the API with a prefix, of each
// address once: views ask again after a while.
func (p *tab) fetched(prefix string) (bytes int) {
	p.t.Helper()
	sizes := evaluate[map[string]int](p, fmt.Sprintf(`Object.fromEntries(%s.map((one) => [one.name, one.decodedBodySize]))`, fetches(prefix)))
	for _, size := range sizes {
		bytes += size
	}
	return bytes
}

// fetches is what the browser tells of questions to the API with a prefix.
func fetches(prefix string) string {
	return fmt.Sprintf(`performance.getEntriesByType("resource").filter((one) => one.initiatorType === "fetch" && new URL(one.name).pathname.startsWith(%q))`, prefix)
}

// listen reads what the page reports until the page is closed.
func (p *tab) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for message, err := range messages {
		if err != nil {
			return
		}
		text := fmt.Sprint(message)
		refused := strings.Contains(text, "the server responded with a status of 4") // which the page shows
		if strings.Contains(strings.ToLower(text), "error") && !refused {
			p.t.Errorf("the page reports: %s", text)
		}
	}
}

// do acts on the page.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.picture("failed")
		p.t.Fatalf("%v; the page shows:\n%s", err, p.text())
	}
}

// press clicks the button or link with a name, in the innermost thing that is open.
func (p *tab) press(name string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`(() => {
		const within = document.querySelector("dialog[open]") ?? document;
		const shown = (e) => [...e.childNodes].filter((n) => n.nodeName !== "KBD").map((n) => n.textContent).join("");
		const named = (e) => (e.getAttribute("aria-label") ?? shown(e)).replace(/\s+/g, " ").trim();
		const found = [...within.querySelectorAll("button, a, summary")].find((e) => named(e) === %[1]q && !e.disabled && e.offsetParent !== null);
		found?.click();
		return found !== undefined;
	})()`, name), "press "+name)
}

// fill types a text into the field with a label.
func (p *tab) fill(label, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`(() => {
		const labelled = (e) => e.getAttribute("aria-label") ?? e.closest("label")?.querySelector("span")?.innerText;
		const found = [...document.querySelectorAll("input, textarea, select")].find((e) => labelled(e) === %q && e.offsetParent !== null);
		found?.focus();
		found?.select?.();
		return found !== undefined;
	})()`, label), "find the field "+label)
	p.do(chromedp.KeyEvent(text))
}

// paste puts a text into the field with a label in place of what it has.
func (p *tab) paste(label, text string) {
	p.t.Helper()
	p.fill(label, "")
	p.until(fmt.Sprintf(`(() => {
		const field = document.activeElement;
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, %q);
		return field.dispatchEvent(new Event("input", { bubbles: true }));
	})()`, text), "paste into "+label)
}

// openFirstRow opens the first row of the table, by keyboard.
func (p *tab) openFirstRow() {
	p.t.Helper()
	p.until(`document.querySelector(".table-body .row") !== null`, "see a row")
	p.do(chromedp.Focus(chromedp.CSS(`[role=grid]`)), pressEnter())
}

func pressEnter() chromedp.Action[chromedp.Void] { return chromedp.KeyEvent(kb.Enter) }

func clickFirst(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// choose chooses an option of the list with a label.
func (p *tab) choose(label, option string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll("select")].find((e) => (e.getAttribute("aria-label") ?? e.closest("label")?.querySelector("span")?.innerText) === %q);
		const option = [...(found?.options ?? [])].find((o) => o.text === %q);
		if (option === undefined) return false;
		found.value = option.value;
		found.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`, label, option), "choose "+option)
}

// sees waits until the page shows a text.
func (p *tab) sees(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, text), "see "+text)
}

// misses waits until the page does not show a text any more.
func (p *tab) misses(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`!document.body.innerText.includes(%q)`, text), "see no more of "+text)
}

// until waits until an expression is true.
func (p *tab) until(expression, what string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		held, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && held {
			return
		}
		if ctx.Err() != nil || err != nil {
			p.picture("failed")
			p.t.Fatalf("could not %s: %v; the page shows:\n%s", what, err, p.text())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// evaluate returns the value of an expression, waiting for it if it is a promise.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// text returns what the page shows.
func (p *tab) text() string {
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// inspect looks for faults of accessibility in both colour schemes, which differ in contrast alone,
// and leaves a picture of each.
func (p *tab) inspect(name string) {
	p.t.Helper()
	p.colours("light")
	p.picture(name + "-light")
	p.checkAccessibility(name + " in light")
	p.colours("dark")
	p.picture(name + "-dark")
	p.checkAccessibility(name+" in dark", "color-contrast")
}

// colours shows the page in a scheme of colours, without motion.
func (p *tab) colours(scheme string) {
	p.t.Helper()
	features := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, features); err != nil {
		p.t.Fatal(err)
	}
}

// checkAccessibility fails the test for each serious fault that axe-core finds, by all its rules
// unless some are named.
func (p *tab) checkAccessibility(where string, rules ...string) {
	p.t.Helper()
	if !evaluate[bool](p, `"axe" in window`) {
		evaluate[bool](p, p.browser.axe+"; true")
	}
	only := ""
	if len(rules) > 0 {
		only = fmt.Sprintf(`, runOnly: ["%s"]`, strings.Join(rules, `", "`))
	}
	found := evaluate[string](p, `axe.run(document, { resultTypes: ["violations"]`+only+` }).then((r) => JSON.stringify(
		r.violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => ({ ID: v.id, Help: v.help,
			At: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + (n.any[0]?.message ?? "")) }))))`)
	var faults []struct {
		ID, Help string
		At       []string
	}
	if err := json.Unmarshal([]byte(found), &faults); err != nil {
		p.t.Fatal(err)
	}
	for _, fault := range faults {
		p.t.Errorf("%s: %s: %s\n\t%s", where, fault.ID, fault.Help, strings.Join(fault.At, "\n\t"))
	}
}

// picture keeps what the page looks like, if pictures are wanted.
func (p *tab) picture(name string) {
	if *screenshots != "" {
		p.keep(name, p.capture())
	}
}

// capture returns what the page looks like, as a PNG.
func (p *tab) capture() []byte {
	p.t.Helper()
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// keep writes a picture, if pictures are wanted.
func (p *tab) keep(name string, data []byte) {
	if *screenshots == "" {
		return
	}
	err := os.MkdirAll(*screenshots, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(*screenshots, name+".png"), data, 0o644)
	}
	if err != nil {
		p.t.Errorf("picture %s: %v", name, err)
	}
}
