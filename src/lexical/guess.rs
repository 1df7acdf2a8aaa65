//! Guesses the language of a namespace from its first messages.
//!
//! The guess is a function of the texts in their order alone, so it does not depend on when it is asked for. Letters are
//! counted, and the texts so far are judged when they have [`FIRST_LETTERS`], and each time that the number doubles. A
//! language other than English is taken only if `whatlang` calls its answer reliable for the texts together, and most of
//! their letters are in messages that are nearer to this language than to English: so neither a chat in two languages nor
//! code decides. English needs no such care, because texts are analyzed as English before the guess. Most of it is known by
//! its stop words: `whatlang` takes 0.3 ms, which counts where very many namespaces are new.
//!
//! `lingua` promises more on single sentences, but its models take about 3 MB a language, and the texts here are longer.

use std::{collections::HashSet, sync::LazyLock};

use whatlang::{Detector, Lang};

use super::language::{ChosenLanguage, ENGLISH_STOP_WORDS, Language, LanguageOrigin};

/// Number of letters after which the language is guessed for the first time.
const FIRST_LETTERS: usize = 200;
/// Number of letters after which no later text is read.
const LAST_LETTERS: usize = 16 * FIRST_LETTERS;
/// Number of texts after which no later text is read, if they have few letters.
const MAX_TEXTS: usize = 256;
/// The bytes of a text that are read: a pasted document does not decide alone.
const MAX_BYTES: usize = 2048;
/// The share of the letters that must be in messages of the language.
const MIN_SHARE: f64 = 0.75;
/// The share of English stop words from which texts are taken for English. Nine in ten English chats have more in their first
/// 200 letters, other languages at most 0.1, and chats that are half in another language at most 0.35.
const STOP_WORDS: f64 = 0.4;

/// Reads texts until they say which language they are in.
#[derive(Default)]
pub(crate) struct LanguageGuesser {
    texts: String,
    /// The end of each text, and its number of letters.
    ends: Vec<(usize, usize)>,
    letters: usize,
}

impl LanguageGuesser {
    /// Reads the next text. Returns the language that the texts are in, and the default one if they are in several or in
    /// one without a stemmer; `None` if later texts are needed.
    pub(crate) fn read(&mut self, text: &str) -> Option<ChosenLanguage> {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        let before = self.letters;
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        self.letters += letters;
        self.texts.push_str(text);
        self.texts.push('\n');
        self.ends.push((self.texts.len(), letters));
        let doublings = |letters: usize| (letters / FIRST_LETTERS).checked_ilog2();
        let is_due = doublings(self.letters) > doublings(before);
        let guess = if is_due { self.guess() } else { None };
        let is_last = self.letters >= LAST_LETTERS || self.ends.len() == MAX_TEXTS;
        guess.or(is_last.then(ChosenLanguage::default))
    }

    /// Judges the texts so far. `None` if they are unclear.
    fn guess(&self) -> Option<ChosenLanguage> {
        if self.is_plainly_english() {
            return Some(ChosenLanguage { language: Language::English, origin: LanguageOrigin::Guessed });
        }
        let info = whatlang::detect(&self.texts).filter(whatlang::Info::is_reliable)?;
        let Some(language) = language(info.lang()) else { return Some(ChosenLanguage::default()) };
        let is_clear = language == Language::English || self.share(info.lang()) >= MIN_SHARE;
        is_clear.then_some(ChosenLanguage { language, origin: LanguageOrigin::Guessed })
    }

    fn is_plainly_english(&self) -> bool {
        static STOP: LazyLock<HashSet<&str>> = LazyLock::new(|| ENGLISH_STOP_WORDS.iter().copied().collect());
        let words = self.texts.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
        let (mut all, mut stop) = (0, 0);
        for word in words {
            all += 1;
            stop += usize::from(STOP.contains(&*word.to_lowercase()));
        }
        stop as f64 >= STOP_WORDS * f64::from(all)
    }

    /// Returns the share of the letters that are in texts nearer to this language than to English.
    fn share(&self, wanted: Lang) -> f64 {
        let detector = Detector::with_allowlist(vec![wanted, Lang::Eng]);
        let (mut begin, mut letters) = (0, 0);
        for &(end, of_text) in &self.ends {
            if detector.detect_lang(&self.texts[begin..end]) == Some(wanted) {
                letters += of_text;
            }
            begin = end;
        }
        letters as f64 / self.letters as f64
    }
}

fn language(lang: Lang) -> Option<Language> {
    Some(match lang {
        Lang::Eng => Language::English,
        Lang::Ara => Language::Arabic,
        Lang::Dan => Language::Danish,
        Lang::Nld => Language::Dutch,
        Lang::Fin => Language::Finnish,
        Lang::Fra => Language::French,
        Lang::Deu => Language::German,
        Lang::Ell => Language::Greek,
        Lang::Hin => Language::Hindi,
        Lang::Hun => Language::Hungarian,
        Lang::Ita => Language::Italian,
        Lang::Nob => Language::Norwegian,
        Lang::Por => Language::Portuguese,
        Lang::Ron => Language::Romanian,
        Lang::Rus => Language::Russian,
        Lang::Spa => Language::Spanish,
        Lang::Swe => Language::Swedish,
        Lang::Tam => Language::Tamil,
        Lang::Tur => Language::Turkish,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn guess<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<ChosenLanguage> {
        let mut guesser = LanguageGuesser::default();
        texts.into_iter().find_map(|text| guesser.read(text))
    }

    /// The beginning of a chat in each language: about 250 letters, in messages of a line.
    const CHATS: &[(Option<Language>, &str)] = &[
        (
            Some(Language::English),
            "Good morning! We have moved to the new flat, on the third floor, with a view of the park.\n\
             Congratulations! Has the cat got used to it?\n\
             At first she hid under the bath, and now she sleeps at the window all day.\n\
             I have begun to swim, on Tuesday mornings at seven.\n\
             My doctor has forbidden me coffee until the end of the month.",
        ),
        (
            Some(Language::Arabic),
            "صباح الخير، انتقلنا الأسبوع الماضي إلى الشقة الجديدة في الطابق الثالث وتطل على الحديقة.\n\
             مبروك! هل تعودت القطة على المكان؟\n\
             في البداية كانت تختبئ تحت السرير، والآن تنام طوال النهار بجانب النافذة.\n\
             بدأت أذهب إلى السباحة كل يوم ثلاثاء في الساعة السابعة صباحا.\n\
             الطبيب منعني من شرب القهوة حتى نهاية الشهر.",
        ),
        (
            Some(Language::Danish),
            "I sidste uge flyttede vi ind i den nye lejlighed på tredje sal med udsigt over parken.\n\
             Tillykke! Har katten vænnet sig til det?\n\
             Først gemte hun sig under badekarret, nu sover hun i vinduet hele dagen.\n\
             Jeg er begyndt at svømme, tirsdag morgen klokken syv.\n\
             Lægen har forbudt mig kaffe indtil slutningen af måneden.",
        ),
        (
            Some(Language::Dutch),
            "Vorige week zijn we verhuisd naar de nieuwe flat, derde verdieping met uitzicht op het park.\n\
             Gefeliciteerd! Is de kat al gewend?\n\
             Eerst zat ze onder het bad, nu slaapt ze de hele dag op de vensterbank.\n\
             Ik ben op zwemles gegaan, dinsdagochtend om zeven uur.\n\
             De dokter heeft me tot het einde van de maand koffie verboden.",
        ),
        (
            Some(Language::Finnish),
            "Viime viikolla muutimme uuteen asuntoon, kolmas kerros ja näköala puistoon.\n\
             Onneksi olkoon! Onko kissa tottunut?\n\
             Ensin se piiloutui ammeen alle, nyt se nukkuu ikkunalla koko päivän.\n\
             Aloitin uinnin, tiistaiaamuisin kello seitsemän.\n\
             Lääkäri kielsi minulta kahvin kuun loppuun asti.",
        ),
        (
            Some(Language::French),
            "La semaine dernière, nous avons emménagé dans le nouvel appartement, avec vue sur le parc.\n\
             Félicitations ! Le chat s'est habitué ?\n\
             Au début il se cachait sous la baignoire, maintenant il dort toute la journée à la fenêtre.\n\
             Je me suis inscrite à la natation, le mardi matin à sept heures.",
        ),
        (
            Some(Language::German),
            "Letzte Woche sind wir in die neue Wohnung gezogen, dritter Stock mit Blick auf den Park.\n\
             Glückwunsch! Hat sich die Katze eingewöhnt?\n\
             Zuerst hat sie sich unter der Wanne versteckt, jetzt schläft sie den ganzen Tag am Fenster.\n\
             Ich habe mit dem Schwimmen angefangen, dienstags um sieben.",
        ),
        (
            Some(Language::Greek),
            "Την περασμένη εβδομάδα μετακομίσαμε στο καινούργιο σπίτι, τρίτος όροφος στο Παγκράτι.\n\
             Καλορίζικο! Η γάτα το συνήθισε;\n\
             Στην αρχή κρυβόταν κάτω από το κρεβάτι, τώρα κοιμάται στο παράθυρο.\n\
             Ο γιατρός μου απαγόρευσε τον καφέ μέχρι το τέλος του μήνα.",
        ),
        (
            Some(Language::Hindi),
            "पिछले हफ़्ते हम नए मकान में आ गए हैं, तीसरी मंज़िल पर, और खिड़की से बगीचा दिखता है।\n\
             बधाई हो! क्या बिल्ली को आदत हो गई है?\n\
             पहले वह पलंग के नीचे छिपती थी, अब सारा दिन खिड़की के पास सोती रहती है।\n\
             मैंने तैरना शुरू कर दिया है, हर मंगलवार सुबह सात बजे जाता हूँ।\n\
             डॉक्टर ने मुझे महीने के आख़िर तक कॉफ़ी पीने से मना किया है।",
        ),
        (
            Some(Language::Hungarian),
            "Múlt héten költöztünk az új lakásba, harmadik emelet, kilátás a parkra.\n\
             Gratulálok! A macska megszokta már?\n\
             Először a kád alatt bujkált, most egész nap az ablakban alszik.\n\
             Az orvos a hónap végéig megtiltotta a kávét.\n\
             Vennél kenyeret és tejet hazafelé?",
        ),
        (
            Some(Language::Italian),
            "La settimana scorsa ci siamo trasferiti nel nuovo appartamento, terzo piano con vista sul parco.\n\
             Complimenti! La gatta si è abituata?\n\
             All'inizio si nascondeva sotto la vasca, adesso dorme tutto il giorno alla finestra.\n\
             Mi sono iscritta a nuoto, il martedì mattina alle sette.",
        ),
        (
            Some(Language::Portuguese),
            "Na semana passada mudámos para o apartamento novo, no terceiro andar, com vista para o parque.\n\
             Parabéns! A gata já se habituou?\n\
             No início escondia-se debaixo da banheira, agora dorme o dia todo à janela.\n\
             O médico proibiu-me o café até ao fim do mês.\n\
             Podes comprar pão e leite no caminho para casa?",
        ),
        (
            Some(Language::Romanian),
            "Săptămâna trecută ne-am mutat în apartamentul nou, etajul trei, cu vedere spre parc.\n\
             Felicitări! Pisica s-a obișnuit?\n\
             La început s-a ascuns sub cadă, acum doarme toată ziua la geam.\n\
             M-am înscris la înot, marțea dimineața la șapte.\n\
             Doctorul mi-a interzis cafeaua până la sfârșitul lunii.",
        ),
        (
            Some(Language::Russian),
            "Вчера переехали в новую квартиру на улице Гоголя, третий этаж, окна во двор.\n\
             Поздравляю! А кот как перенёс переезд?\n\
             Сначала прятался под ванной, теперь спит на подоконнике целыми днями.\n\
             Я записалась на плавание, по вторникам в семь утра.\n\
             Мне врач запретил кофе до конца месяца, пью цикорий.",
        ),
        (
            Some(Language::Spanish),
            "La semana pasada nos mudamos al piso nuevo, tercera planta con vistas al parque.\n\
             ¡Enhorabuena! ¿La gata ya se ha acostumbrado?\n\
             Al principio se escondía debajo de la bañera, ahora duerme todo el día en la ventana.\n\
             El médico me ha prohibido el café hasta final de mes.",
        ),
        (
            Some(Language::Swedish),
            "Förra veckan flyttade vi till den nya lägenheten, tredje våningen med utsikt över parken.\n\
             Grattis! Har katten vant sig?\n\
             Först gömde hon sig under badkaret, nu sover hon i fönstret hela dagen.\n\
             Läkaren har förbjudit mig kaffe till slutet av månaden.",
        ),
        (
            Some(Language::Tamil),
            "கடந்த வாரம் புதிய வீட்டிற்கு குடிபெயர்ந்தோம், மூன்றாவது மாடி.\n\
             வாழ்த்துகள்! பூனை பழகிவிட்டதா?\n\
             முதலில் கட்டிலுக்கு அடியில் ஒளிந்தது, இப்போது ஜன்னலில் தூங்குகிறது.\n\
             நான் செவ்வாய்க்கிழமை காலை நீச்சல் பயிற்சி செல்கிறேன்.\n\
             மருத்துவர் மாத இறுதி வரை காபி குடிக்க வேண்டாம் என்றார்.\n\
             வீட்டிற்கு வரும் வழியில் ரொட்டியும் பாலும் வாங்கி வர முடியுமா?",
        ),
        (
            Some(Language::Turkish),
            "Geçen hafta yeni eve taşındık, Kadıköy'de üçüncü katta küçük bir daire.\n\
             Hayırlı olsun! Kedi alıştı mı?\n\
             İlk gün dolabın altına saklandı, şimdi pencerenin önünde uyuyor.\n\
             Doktor bana ay sonuna kadar kahveyi yasakladı.\n\
             Eve gelirken ekmek ve süt alır mısın?",
        ),
        // Without a stemmer here.
        (
            None,
            "Минулого тижня ми переїхали в нову квартиру, третій поверх, вікна у двір.\n\
             Спочатку кіт ховався під ванною, тепер цілий день спить на підвіконні.\n\
             Я записалася на плавання, щовівторка о сьомій ранку.\n\
             Лікар заборонив мені каву до кінця місяця.\n\
             Скільки коштує абонемент на місяць?",
        ),
        (
            None,
            "W zeszłym tygodniu przeprowadziliśmy się do nowego mieszkania, trzecie piętro z widokiem na park.\n\
             Najpierw kot chował się pod wanną, teraz cały dzień śpi na parapecie.\n\
             Zapisałam się na basen, we wtorki o siódmej rano.\n\
             Lekarz zabronił mi kawy do końca miesiąca.\n\
             Kup proszę chleb i mleko po drodze do domu.",
        ),
    ];

    #[test]
    fn the_beginning_of_a_chat_tells_its_language() {
        for &(expected, chat) in CHATS {
            let expected = expected.map(|language| ChosenLanguage { language, origin: LanguageOrigin::Guessed });
            assert_eq!(guess(chat.lines()), Some(expected.unwrap_or_default()), "{chat}");
            assert_eq!(guess(chat.lines().take(1)), None, "too few letters: {chat}");
        }
    }

    /// Texts in two languages, and texts without words, are unclear for as long as any are read.
    #[test]
    fn a_language_must_dominate() {
        let lines = |language| {
            let (_, chat) = CHATS.iter().find(|(of, _)| *of == Some(language)).unwrap();
            chat.lines().cycle()
        };
        let mixed = |one, other| lines(one).zip(lines(other)).flat_map(|(one, other)| [one, other]);
        for (one, other) in [(Language::Turkish, Language::English), (Language::Russian, Language::English)] {
            let guess = guess(mixed(one, other)).unwrap();
            assert_ne!(guess.language, one);
        }
        let code = "sudo docker run -d -p 5432:5432 postgres:17 && kubectl get pods -n kube-system | grep dns";
        assert_eq!(guess(std::iter::repeat(code)).unwrap().language, Language::English);
        assert_eq!(guess(std::iter::repeat("👍 10:30")), Some(ChosenLanguage::default()));
        assert_eq!(guess(["👍 10:30"; MAX_TEXTS - 1]), None);
    }

    proptest! {
        #[test]
        fn any_texts_have_a_guess(texts in prop::collection::vec(prop_oneof![any::<String>(), "[a-zа-яα-ωअ-हا-ي ]{0,400}"], 0..8)) {
            let found = guess(texts.iter().map(String::as_str).chain(std::iter::repeat("")));
            prop_assert!(found.is_some());
        }
    }
}
