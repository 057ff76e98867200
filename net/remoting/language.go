package remoting

// Languages of clients, as numbers of the ROCKETMQ header. The JSON header has their names.
const (
	LanguageJava  = 0
	LanguageOther = 7
	LanguageGo    = 9
	languageCount = 14
)

// LanguageName is the name that a JSON header has for a language; one we do not know is OTHER.
func LanguageName(language uint8) string {
	switch language {
	case 0:
		return "JAVA"
	case 1:
		return "CPP"
	case 2:
		return "DOTNET"
	case 3:
		return "PYTHON"
	case 4:
		return "DELPHI"
	case 5:
		return "ERLANG"
	case 6:
		return "RUBY"
	case 8:
		return "HTTP"
	case 9:
		return "GO"
	case 10:
		return "PHP"
	case 11:
		return "OMS"
	case 12:
		return "RUST"
	case 13:
		return "NODE_JS"
	}
	return "OTHER"
}

// languageOf is the number of a name; a name we do not know is OTHER, for a client of a new language must not be turned away.
func languageOf(name []byte) uint8 {
	for language := range uint8(languageCount) {
		if LanguageName(language) == string(name) {
			return language
		}
	}
	return LanguageOther
}
