// Light, dark, or as the system has it. The choice is kept where the browser lets a page keep something.
const THEMES = ['system', 'light', 'dark'];
const THEME_KEY = 'infer-opt-theme';

function storedTheme() {
  try {
    const kept = localStorage.getItem(THEME_KEY);
    return THEMES.includes(kept) ? kept : 'system';
  } catch (error) {
    return 'system';  // pages of files may have no storage
  }
}

function useTheme(name) {
  if (name === 'system')
    delete document.documentElement.dataset.theme;
  else
    document.documentElement.dataset.theme = name;
  document.dispatchEvent(new Event('themechange'));
}

// A button that goes through the themes.
function themeButton() {
  let theme = storedTheme();
  const button = document.createElement('button'), tell = () => {
    button.textContent = `colours: ${theme}`;
  };
  button.type = 'button';
  button.className = 'theme';
  button.addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try {
      localStorage.setItem(THEME_KEY, theme);
    } catch (error) {
      // The choice holds for this visit.
    }
    useTheme(theme);
    tell();
  });
  tell();
  window.matchMedia('(prefers-color-scheme: dark)')
      .addEventListener('change', () => document.dispatchEvent(new Event('themechange')));
  return button;
}
useTheme(storedTheme());
