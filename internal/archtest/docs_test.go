package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// texts are the files of the tree that end in one of the suffixes, by path from its root. Build output and version control are left out.
func texts(t *testing.T, suffixes ...string) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	found := make(map[string]string)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		if entry.IsDir() {
			if rel == "bin" || rel == "run" || entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
				return filepath.SkipDir
			}
			return nil
		}
		for _, suffix := range suffixes {
			if strings.HasSuffix(rel, suffix) {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				found[filepath.ToSlash(rel)] = string(text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no file ends in %v: the walk is wrong", suffixes)
	}
	return found
}

// A page that names a test says that something is proven; the test must be there. A name that ends in … stands for all that begin so.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	var functions []string
	for _, text := range texts(t, "_test.go") {
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`).FindAllStringSubmatch(text, -1) {
			functions = append(functions, m[1])
		}
	}
	all := "\n" + strings.Join(functions, "\n") + "\n"
	named := 0
	for page, text := range texts(t, ".md") {
		for _, m := range regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)(…?)`).FindAllStringSubmatch(text, -1) {
			named++
			want := "\n" + m[1]
			if m[2] == "" {
				want += "\n"
			}
			if !strings.Contains(all, want) {
				t.Errorf("%s names %s, which is no test", page, m[0])
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d tests are named: the search is wrong", named)
	}
}

func TestDocumentsLinkToWhatExists(t *testing.T) {
	for page, text := range texts(t, ".md") {
		for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", "..", filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

func TestMakeTargetsThatAreNamedExist(t *testing.T) {
	targets := texts(t, "Makefile")["Makefile"]
	for page, text := range texts(t, ".md") {
		for _, m := range regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(targets, "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which is no target", page, m[1])
			}
		}
	}
}

// docs/metrics.md and internal/metrics have the same names.
func TestMetricsAreDocumented(t *testing.T) {
	page, names := texts(t, ".md")["docs/metrics.md"], regexp.MustCompile(`\b(?:ringmq|rocketmq)_[a-z_]+[a-z]\b`)
	made := make(map[string]bool)
	for file, text := range texts(t, ".go") {
		if strings.HasPrefix(file, "internal/metrics/") && !strings.HasSuffix(file, "_test.go") {
			for _, name := range names.FindAllString(text, -1) {
				made[name] = true
			}
		}
	}
	for name := range made {
		if !strings.Contains(page, "`"+name) {
			t.Errorf("%s is not in docs/metrics.md", name)
		}
	}
	for _, name := range names.FindAllString(page, -1) {
		if !made[strings.TrimSuffix(name, "_count")] {
			t.Errorf("docs/metrics.md has %s, which nobody makes", name)
		}
	}
}
